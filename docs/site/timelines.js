// Draws the timelines of a page with the lab's one pen, from what a notebook stores beside each picture. One after the
// other, from the top, so that the first one is there soon; its picture in words stays below it.
(async () => {
  for (const place of document.querySelectorAll(".lab-timeline")) {
    const [room, stored] = place.children, words = room.querySelector("details"), [block, look] = JSON.parse(stored.textContent);
    try {
      await labkitPen.mount(room, block, { ...look, page: labkitPen.page, key: block });
      place.append(words);
    } catch (error) {
      console.warn(`the picture stays: ${error}`);
    }
  }
})();
