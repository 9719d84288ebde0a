"use strict";
(() => {
  const root = document.documentElement, tip = document.getElementById("tip");
  // Tips: of whatever has the pointer or the focus.
  const show = (target, x, y) => {
    const of = target.closest && target.closest("[data-tip]");
    tip.hidden = !of;
    if (!of) return;
    tip.textContent = of.dataset.tip;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 4)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + "px";
  };
  addEventListener("pointermove", e => show(e.target, e.clientX, e.clientY));
  addEventListener("focusin", e => {
    const box = e.target.getBoundingClientRect();
    if (e.target.matches(":focus-visible")) show(e.target, box.left, box.bottom - 12);
  });
  addEventListener("focusout", () => { tip.hidden = true; });
  addEventListener("keydown", e => { if (e.key === "Escape") tip.hidden = true; });
  // Theme: the system's, dark, light.
  const button = document.getElementById("theme"), themes = ["system", "dark", "light"];
  const stored = () => { try { return localStorage.getItem("matloom-theme"); } catch { return null; } };
  const choose = name => {
    if (name === "system") delete root.dataset.theme; else root.dataset.theme = name;
    button.textContent = "\u25d0 " + name;
    button.setAttribute("aria-label", "Theme: " + name);
    try { localStorage.setItem("matloom-theme", name); } catch { /* a file may have no storage */ }
    button.onclick = () => choose(themes[(themes.indexOf(name) + 1) % themes.length]);
  };
  button.hidden = false;
  choose(themes.includes(stored()) ? stored() : "system");
  // Sorting: a click or Enter on a heading; once more reverses.
  const value = (row, at) => {
    const cell = row.cells[at], key = cell.dataset.key ?? cell.textContent.trim();
    const number = parseFloat(key.replace(/[,\s%]/g, ""));
    return /^[-+]?[\d.,\s]+%?/.test(key) && !Number.isNaN(number) ? number : key;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b);
  for (const head of document.querySelectorAll(".sortable thead th")) {
    head.querySelector("button").onclick = () => {
      const body = head.closest("table").tBodies[0], at = head.cellIndex;
      const numeric = head.classList.contains("number");
      const before = head.getAttribute("aria-sort");
      const way = before ? (before === "ascending" ? -1 : 1) : numeric ? -1 : 1;
      for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
      [...body.rows].sort((a, b) => way * compare(value(a, at), value(b, at)))
        .forEach(row => body.append(row));
    };
  }
  // Navigation: mark the section that is being read.
  const links = new Map([...document.querySelectorAll(".links a")].map(a => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver(entries => {
    for (const each of entries) links.get(each.target.id)?.classList.toggle("here", each.isIntersecting);
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const name of links.keys()) seen.observe(document.getElementById(name));
})();
