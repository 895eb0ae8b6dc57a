// Runs before a page is seen. Stored pictures and the pen ask <html> whether the page is dark; the theme of the page, its
// buttons included, says so on <body>, where "auto" means: as the browser.
(() => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const follow = () => {
    const chosen = document.body?.dataset.theme ?? stored() ?? "auto";
    root.dataset.theme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  };
  follow();
  dark.addEventListener("change", follow);
  document.addEventListener("DOMContentLoaded", () => {
    follow();
    // What has to be scrolled can be reached by keys.
    const narrow = matchMedia("(max-width: 700px)").matches; // where pictures are moved sideways; some are closed yet
    for (const wide of document.querySelectorAll(".table-wrapper, .cell_output table, .labkit-picture"))
      if (wide.scrollWidth > wide.clientWidth || (narrow && wide.matches(".labkit-picture"))) wide.tabIndex = 0;
    new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-theme"] });
  });
})();
