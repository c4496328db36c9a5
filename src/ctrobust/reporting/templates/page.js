"use strict";
(() => {
  const data = JSON.parse(document.getElementById("payload").textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, text = "", attributes = {}) => {
    const node = document.createElement(name);
    node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  // Charts. Each is drawn once, when it has a width: at the start, or when the details around it are opened.
  const views = new Map();

  const objects = ({ fields, values }) =>
    values.map((row) => Object.fromEntries(fields.map((field, column) => [field, row[column]])));

  const hiddenModels = (section) =>
    section ? all(".series input:not(:checked)", section).map((box) => box.value) : [];

  async function draw(node) {
    if (node.dataset.state || node.clientWidth === 0) return;
    node.dataset.state = "drawing";
    const figure = data.figures[node.dataset.figure];
    const rows = objects(figure.rows).map((row) => ({ ...data.series[row.model], ...row }));
    const specification = {
      ...data.specifications[figure.kind],
      datasets: { rows, marks: objects(figure.marks) },
      params: [{ name: "hidden", value: hiddenModels(node.closest(".data")) }],
    };
    try {
      const drawn = await vegaEmbed(node, specification, {
        mode: "vega-lite",
        renderer: "svg",
        actions: false,
        logLevel: 1, // errors; a chart whose models are all off would warn
        defaultStyle: false,
        tooltip: { disableDefaultStyle: true },
        config: data.configuration,
      });
      views.set(node, drawn.view);
      node.querySelector("svg").setAttribute("aria-hidden", "true"); // the chart is one image with a label
      node.dataset.state = "drawn";
    } catch (error) {
      node.dataset.state = "failed";
      node.textContent = `This chart cannot be drawn (${error.message}); its values are in the table below it.`;
    }
  }

  async function drawAll(root) {
    for (const node of all(".chart", root)) await draw(node);
  }

  document.addEventListener("toggle", (event) => event.target.open && drawAll(event.target), true);

  document.addEventListener("change", (event) => {
    const box = event.target.closest(".series input");
    if (!box) return;
    const section = box.closest(".data");
    const hidden = hiddenModels(section);
    for (const node of all(".chart", section)) views.get(node)?.signal("hidden", hidden).runAsync();
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-check]");
    if (!button) return;
    const boxes = all("input", button.closest(".series"));
    for (const box of boxes) box.checked = button.dataset.check === "all";
    boxes[0].dispatchEvent(new Event("change", { bubbles: true }));
  });

  // Tables: a click on a header sorts, a second click reverses; rows without a value stay last.
  function sortBy(header) {
    const table = header.closest("table");
    const column = [...header.parentNode.children].indexOf(header);
    const numeric = header.classList.contains("numeric");
    const before = header.getAttribute("aria-sort");
    const order = before === "none" ? (numeric ? "descending" : "ascending") : before === "ascending" ? "descending" : "ascending";
    for (const other of all("th[aria-sort]", table.tHead)) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const key = (row) => row.cells[column].dataset.sort ?? "";
    const compare = (a, b) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      const difference = Number(a) - Number(b);
      return sign * (Number.isNaN(difference) ? a.localeCompare(b) : difference);
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("th[aria-sort] button");
    if (button) sortBy(button.closest("th"));
  });

  function filter(controls) {
    const table = document.getElementById(controls.dataset.table);
    const words = controls.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = all("select", controls).map((one) => [one.name, one.value]).filter(([, value]) => value);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word)) && chosen.every(([name, value]) => row.dataset[name] === value);
      row.hidden = !fits;
      shown += fits;
    }
    controls.querySelector("output").textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
  }

  document.addEventListener("input", (event) => {
    const controls = event.target.closest(".filter");
    if (controls) filter(controls);
  });

  document.addEventListener("submit", (event) => event.preventDefault());

  // The dialog that shows where a number comes from.
  const dialog = document.getElementById("record");

  function facts(pairs) {
    const list = make("dl");
    for (const [title, text] of pairs) list.append(make("dt", title), make("dd", text));
    return list;
  }

  function folded(title, ...content) {
    const node = make("details");
    node.append(make("summary", title), ...content);
    return node;
  }

  function commandLine(text) {
    const node = make("div", "", { class: "command" });
    const button = make("button", "Copy", { type: "button" });
    const code = make("code", text);
    button.addEventListener("click", async () => {
      getSelection().selectAllChildren(code);
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Selected";
      }
    });
    node.append(code, button);
    return node;
  }

  function environment(number) {
    return number === null || number === undefined
      ? make("p", "An older version did not record the environment.")
      : facts(data.environments[number]);
  }

  function runPart(key) {
    const run = data.runs[key];
    return [
      ...(run.command ? [make("h4", "Train it again"), commandLine(run.command)] : []),
      make("h4", "Check the stored numbers"),
      commandLine(run.check),
      facts(run.facts),
      folded("Full spec", facts(run.spec)),
      folded("Versions, commit and environment of the training", environment(run.environment)),
    ];
  }

  function recordPart(key) {
    const one = data.evaluations[key];
    if (!one) return [data.runs[key].title, runPart(key)];
    const parts = [
      make("h4", "Run it again"),
      commandLine(one.command),
      facts(one.facts),
      folded("Versions, commit and environment of the evaluation", environment(one.environment)),
      folded("The training of this network", ...runPart(one.run)),
    ];
    return [one.title, parts];
  }

  function showRecords(keys) {
    const body = dialog.querySelector(".records");
    body.replaceChildren();
    for (const key of keys) {
      const [title, parts] = recordPart(key);
      if (keys.length === 1) body.append(make("h3", title), ...parts);
      else body.append(folded(title, ...parts));
    }
    dialog.showModal();
    dialog.scrollTop = 0;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-records]");
    if (button) showRecords(button.dataset.records.split(" "));
    else if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
  });

  // Theme: charts are drawn in CSS variables and follow without being drawn again.
  const toggle = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const showTheme = () => toggle.setAttribute("aria-pressed", String(isDark()));
  toggle.addEventListener("click", () => {
    const chosen = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    try {
      localStorage.setItem("ctrobust-theme", chosen);
    } catch {
      // The choice lasts as long as the page.
    }
    showTheme();
  });
  system.addEventListener("change", showTheme);
  showTheme();

  // A link to a model opens its details.
  function openTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  drawAll(document).then(() => {
    document.documentElement.dataset.ready = "true";
  });
})();
