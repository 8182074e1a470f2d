// Light or dark: as the system has it, unless the reader chose. Runs before anything is painted.
"use strict";
(() => {
  const root = document.documentElement;
  const key = "slurm-ofu-theme";

  const read = () => {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // some browsers keep nothing for files
    }
  };
  const keep = (choice) => {
    try {
      localStorage.setItem(key, choice);
    } catch {
      // it holds for this page, then
    }
  };
  const apply = (choice) => {
    if (choice === "light" || choice === "dark") root.dataset.theme = choice;
    else delete root.dataset.theme;
    document.dispatchEvent(new Event("themechange"));
  };

  apply(read());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(read()));
  document.addEventListener("DOMContentLoaded", () => {
    const label = document.createElement("label");
    label.textContent = "Theme ";
    const select = document.createElement("select");
    for (const [value, text] of [["", "as the system"], ["light", "light"], ["dark", "dark"]]) {
      select.add(new Option(text, value));
    }
    select.value = root.dataset.theme ?? "";
    select.addEventListener("change", () => {
      keep(select.value);
      apply(select.value);
    });
    label.append(select);
    document.getElementById("theme").append(label);
  });
})();
