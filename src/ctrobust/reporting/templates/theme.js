"use strict";
// Before anything is drawn: the theme that the reader chose on an earlier visit.
(() => {
  try {
    const chosen = localStorage.getItem("ctrobust-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // A browser without storage follows the system's theme.
  }
  document.documentElement.classList.add("scripted");
})();
