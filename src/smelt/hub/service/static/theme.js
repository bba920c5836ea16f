"use strict";
// Runs before the page is drawn: the theme that was chosen here before, else the system's.
(() => {
  const root = document.documentElement;
  root.classList.remove("plain");
  try {
    const saved = localStorage.getItem("smelt-theme");
    if (saved === "dark" || saved === "light") root.dataset.theme = saved;
  } catch { /* storage may be forbidden; then the system's theme it is */ }
})();
