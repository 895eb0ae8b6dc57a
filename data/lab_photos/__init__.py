"""The lab's photo set: a painter of labelled JPEGs and the TFDS builder that packs them."""
