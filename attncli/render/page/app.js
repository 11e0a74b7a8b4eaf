"use strict";
/* The page of attncli: heads as small maps; one head as matrix, lines, text and table. No library, no request. */

const $ = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) element.setAttribute(name, String(value));
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

/* Decoding */

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** Return the number that a step of the square-root scale stands for; NaN for 255, which stands for none. */
function valueOf(step, low, high) {
  if (step === 255) return NaN;
  const least = -Math.sqrt(-low);
  const root = least + (step / 254) * (Math.sqrt(high) - least);
  return root * Math.abs(root);
}

/** Return a number's place on the square-root scale, from 0 to 254. */
function stepOf(value, low, high) {
  const clipped = Math.min(Math.max(value, low), high);
  const least = -Math.sqrt(-low);
  const root = Math.sign(clipped) * Math.sqrt(Math.abs(clipped));
  return Math.round(((root - least) / (Math.sqrt(high) - least)) * 254);
}

function shown(value, exact) {
  if (Number.isNaN(value)) return "may not attend";
  const size = Math.abs(value);
  const text = size !== 0 && size < 0.0005 ? value.toExponential(1) : value.toFixed(3);
  return exact ? text : `≈ ${text}`;
}

/* One grid of matrices, with its numbers */

class Grid {
  constructor(data) {
    Object.assign(this, data);
    this.R = data.queries.length;
    this.C = data.keys.length;
  }

  async load() {
    this.palette = new Uint8Array(await unpack(this.colors));
    const buffer = await unpack(this.data);
    this.values = this.exact ? new Float32Array(buffer) : new Uint8Array(buffer);
    if (this.strongest) {
      const packed = await unpack(this.strongest.data);
      this.cells = new Int32Array(packed);
      this.cellWeights = new Float32Array(packed);
    }
    if (this.rows && this.rows.data) this.wholeRows = new Uint8Array(await unpack(this.rows.data));
    return this;
  }

  value(head, row, key) {
    const stored = this.values[(head * this.R + row) * this.C + key];
    return this.exact ? stored : valueOf(stored, this.low, this.high);
  }

  step(head, row, key) {
    const stored = this.values[(head * this.R + row) * this.C + key];
    if (!this.exact) return stored;
    return Number.isNaN(stored) ? 255 : stepOf(stored, this.low, this.high);
  }

  /** Return the exact weight of a cell where it is among its head's strongest. */
  exactly(head, row, key) {
    if (this.exact || this.pooled || !this.cells) return null;
    if (!this.known) this.known = new Map();
    if (!this.known.has(head)) {
      const found = new Map();
      const { count } = this.strongest;
      for (let i = head * count; i < (head + 1) * count; i++) {
        found.set(this.cells[3 * i] * this.C + this.cells[3 * i + 1], this.cellWeights[3 * i + 2]);
      }
      this.known.set(head, found);
    }
    return this.known.get(head).get(row * this.C + key) ?? null;
  }

  text(head, row, key) {
    const exact = this.exactly(head, row, key);
    const value = exact ?? this.value(head, row, key);
    if (this.unit === "mask") return value > 0 ? "may attend" : "may not attend";
    return shown(value, this.exact || exact !== null);
  }

  row(head, row) {
    return Array.from({ length: this.C }, (_, key) => this.value(head, row, key));
  }

  /** Return numbers that tell heads apart, to sort them by. */
  metrics(head) {
    let entropy = 0, first = 0, before = 0, own = 0, largest = 0, rows = 0;
    for (let row = 0; row < this.R; row++) {
      let sum = 0, bits = 0;
      for (let key = 0; key < this.C; key++) {
        const value = this.value(head, row, key);
        if (Number.isNaN(value)) continue;
        const size = Math.abs(value);
        sum += size;
        largest = Math.max(largest, size);
        if (size > 0) bits -= size * Math.log2(size);
      }
      if (sum === 0) continue;
      rows += 1;
      entropy += bits;
      first += this.value(head, row, 0) || 0;
      if (this.R === this.C) {
        own += this.value(head, row, row) || 0;
        if (row > 0) before += this.value(head, row, row - 1) || 0;
      }
    }
    const over = Math.max(rows, 1);
    return { entropy: entropy / over, "first token": first / over, "token before": before / over, itself: own / over, largest };
  }
}

/** Paint a matrix into a canvas of one pixel a cell. */
function paint(canvas, grid, head) {
  canvas.width = grid.C;
  canvas.height = grid.R;
  const context = canvas.getContext("2d");
  const image = context.createImageData(grid.C, grid.R);
  for (let row = 0, place = 0; row < grid.R; row++) {
    for (let key = 0; key < grid.C; key++, place += 4) {
      const step = grid.step(head, row, key);
      if (step === 255 || (grid.unit === "mask" && step === 0)) continue;
      image.data[place] = grid.palette[3 * step];
      image.data[place + 1] = grid.palette[3 * step + 1];
      image.data[place + 2] = grid.palette[3 * step + 2];
      image.data[place + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

function color(grid, value) {
  if (Number.isNaN(value)) return "transparent";
  const step = stepOf(value, grid.low, grid.high);
  return `rgb(${grid.palette[3 * step]} ${grid.palette[3 * step + 1]} ${grid.palette[3 * step + 2]})`;
}

function isLight(grid, value) {
  if (Number.isNaN(value)) return null;
  const step = stepOf(value, grid.low, grid.high);
  const part = [0, 1, 2].map((i) => {
    const level = grid.palette[3 * step + i] / 255;
    return level <= 0.04045 ? level / 12.92 : ((level + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2] > 0.179;
}

/* The app of a grid */

class Heads {
  constructor(grid, home) {
    this.grid = grid;
    this.home = home;
    this.order = grid.heads.map((_, index) => index);
    this.sortedBy = "layer and head";
    this.head = 0;
    this.row = 0;
    this.key = 0;
    this.tab = grid.picture ? "picture" : "matrix";
  }

  start() {
    this.status = $("p", { class: "status", role: "status", "aria-live": "polite" });
    this.list = $("div", { class: "heads", role: "listbox", "aria-label": "Heads", tabindex: "-1" });
    this.detail = $("section", { class: "detail", "aria-label": "The chosen head" });
    this.search = $("input", { type: "search", id: "search", placeholder: "find a token", "aria-label": "Find a token (key /)", oninput: () => this.find() });
    const bar = $("div", { class: "bar" },
      $("button", { type: "button", onclick: () => this.sort(), title: "key s" }, "sort"),
      this.search,
      $("button", { type: "button", onclick: () => this.help(), title: "key ?" }, "keys"));
    const many = this.grid.heads.length > 1;
    this.home.append(bar, this.status, $("div", { class: many ? "columns" : "columns alone" }, many ? this.list : null, this.detail));
    this.dialog = helpDialog();
    this.home.append(this.dialog);
    if (many) this.drawList();
    this.fromHash();
    this.draw();
    document.addEventListener("keydown", (event) => this.onKey(event));
    window.addEventListener("hashchange", () => { if (location.hash !== this.hash()) { this.fromHash(); this.draw(); } });
  }

  drawList() {
    this.list.replaceChildren();
    this.buttons = new Map();
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        paint(entry.target.querySelector("canvas"), this.grid, Number(entry.target.dataset.head));
        watcher.unobserve(entry.target);
      }
    }, { rootMargin: "200px" });
    for (const head of this.order) {
      const { name } = this.grid.heads[head];
      const button = $("button", { type: "button", role: "option", class: "head", "data-head": head, tabindex: "-1", onclick: () => { this.head = head; this.draw(); } },
        $("canvas", { width: 1, height: 1, "aria-hidden": "true" }), $("span", {}, name));
      button.setAttribute("aria-label", this.describe(head));
      this.buttons.set(head, button);
      this.list.append(button);
      watcher.observe(button);
    }
  }

  /** Say in a line what a head does, for those who do not see its map. */
  describe(head) {
    const { name } = this.grid.heads[head];
    if (this.grid.unit !== "weight") return name;
    const metrics = this.grid.metrics(head);
    return `${name}: ${metrics["token before"].toFixed(2)} on the token before, ${metrics["first token"].toFixed(2)} on the first, entropy ${metrics.entropy.toFixed(1)} bits`;
  }

  hash() {
    const { name } = this.grid.heads[this.head];
    return `#${encodeURIComponent(name)},row=${this.row}`;
  }

  fromHash() {
    const [name, ...rest] = decodeURIComponent(location.hash.slice(1)).split(/,(?=row=)/);
    const head = this.grid.heads.findIndex((one) => one.name === name);
    if (head >= 0) this.head = head;
    const row = Number((rest[0] || "").replace("row=", ""));
    if (Number.isInteger(row) && row >= 0 && row < this.grid.R && rest.length) this.row = row;
  }

  draw() {
    if (this.buttons) {
      for (const [head, button] of this.buttons) {
        button.setAttribute("aria-selected", head === this.head);
        button.tabIndex = head === this.head ? 0 : -1;
      }
    }
    const names = { matrix: "Matrix", lines: "Lines", text: "Text", table: "Table" };
    if (this.grid.picture) names.picture = "Picture";
    const tabs = $("div", { class: "tabs", role: "tablist", "aria-label": "Forms" });
    for (const [tab, title] of Object.entries(names)) {
      tabs.append($("button", { type: "button", role: "tab", id: `tab-${tab}`, "aria-controls": "panel", "aria-selected": tab === this.tab, tabindex: tab === this.tab ? 0 : -1, onclick: () => { this.tab = tab; this.draw(); document.getElementById(`tab-${tab}`).focus(); } }, title));
    }
    this.panel = $("div", { class: `panel ${this.tab}`, id: "panel", role: "tabpanel", "aria-labelledby": `tab-${this.tab}`, tabindex: "0" });
    this.readout = $("p", { class: "readout", "aria-live": "polite" });
    const { name } = this.grid.heads[this.head];
    this.detail.replaceChildren($("h2", {}, name), tabs, this.readout, this.panel, legend(this.grid));
    this[this.tab]();
    this.select(this.row, this.key, false);
  }

  /* Forms */

  matrix() {
    const { grid } = this;
    const canvas = $("canvas", { class: "map", role: "img", "aria-label": `${grid.heads[this.head].name}, ${grid.R} rows by ${grid.C} columns; arrow keys move, the table tab has the numbers` });
    paint(canvas, grid, this.head);
    const size = Math.max(2, Math.min(28, Math.floor(640 / Math.max(grid.R, grid.C))));
    canvas.style.width = `${grid.C * size}px`;
    canvas.style.height = `${grid.R * size}px`;
    const frame = $("div", { class: "frame" }, canvas);
    this.cursor = $("div", { class: "cursor", "aria-hidden": "true" });
    this.band = $("div", { class: "band", "aria-hidden": "true" });
    frame.append(this.band, this.cursor);
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.floor(((event.clientY - box.top) / box.height) * grid.R);
      const key = Math.floor(((event.clientX - box.left) / box.width) * grid.C);
      if (row >= 0 && row < grid.R && key >= 0 && key < grid.C) this.select(row, key);
    };
    canvas.addEventListener("pointermove", place);
    canvas.addEventListener("pointerdown", place);
    if (size >= 11) {
      const rows = $("div", { class: "rows" }, ...grid.queries.map((token) => label(token, size)));
      const keys = $("div", { class: "keys" }, ...grid.keys.map((token) => label(token, size)));
      this.panel.append($("div", { class: "labelled" }, keys, rows, frame));
    } else this.panel.append(frame);
    this.cell = size;
  }

  lines() {
    const { grid } = this;
    const most = 160, height = 22;
    if (Math.max(grid.R, grid.C) > most) {
      this.panel.append($("p", {}, `Lines are drawn for up to ${most} tokens. Use the matrix, or ask for fewer rows and keys.`));
      return;
    }
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const tall = Math.max(grid.R, grid.C) * height;
    svg.setAttribute("viewBox", `0 0 300 ${tall}`);
    svg.setAttribute("width", "300");
    svg.setAttribute("height", String(tall));
    svg.setAttribute("aria-hidden", "true");
    this.svg = svg;
    const left = $("ol", { class: "side left", "aria-label": "Rows" });
    grid.queries.forEach((token, row) => left.append($("li", {}, $("button", { type: "button", "data-row": row, onclick: () => this.select(row, this.key), onpointerenter: () => this.select(row, this.key) }, token[1]))));
    const right = $("ol", { class: "side", "aria-label": "Columns" });
    grid.keys.forEach((token) => right.append($("li", {}, token[1])));
    this.panel.append(left, svg, right);
    this.lineHeight = height;
  }

  text() {
    const { grid } = this;
    if (grid.pooled && grid.wholeRows) return this.wholeText();
    const words = $("p", { class: "words" });
    const square = grid.R === grid.C;
    const keys = grid.keys;
    this.words = keys.map((token, key) => {
      const piece = $("button", { type: "button", class: token[2] ? "word special" : "word", "data-key": key }, token[1].replace(/^·/, " ").replace(/↵$/, "↵"));
      if (square) {
        piece.addEventListener("pointerenter", () => this.select(key, this.key));
        piece.addEventListener("focus", () => this.select(key, this.key));
      }
      words.append(piece, document.createElement("wbr"));
      return piece;
    });
    if (!square) {
      const choose = $("select", { "aria-label": "Row", onchange: (event) => this.select(Number(event.target.value), this.key) });
      grid.queries.forEach((token, row) => choose.append($("option", { value: row, selected: row === this.row }, `${token[0]} ${token[1]}`)));
      this.panel.append($("label", {}, "Row ", choose));
    }
    this.panel.append(words);
  }

  /** Show the text shaded by one of the rows that the page holds whole, where the map is pooled. */
  wholeText() {
    const { grid } = this;
    const places = grid.rows.places[this.head];
    const tokens = grid.allQueries || grid.allKeys;
    const words = $("p", { class: "words" });
    const show = (index) => {
      const start = (grid.rows.places.slice(0, this.head).flat().length + index) * grid.allKeys.length;
      words.replaceChildren(...grid.allKeys.flatMap((token, key) => {
        const value = valueOf(grid.wholeRows[start + key], grid.low, grid.high);
        const word = $("span", { class: key === places[index] && !grid.allQueries ? "word chosen" : "word", title: shown(value, false) }, token[1].replace(/^·/, " "));
        const light = isLight(grid, value);
        word.style.backgroundColor = color(grid, value);
        if (light !== null) word.style.color = light ? "#000" : "#fff";
        return [word, document.createElement("wbr")];
      }));
    };
    const choose = $("select", { "aria-label": "Row", onchange: (event) => show(Number(event.target.value)) });
    places.forEach((row, index) => choose.append($("option", { value: index }, `${tokens[row][0]} ${tokens[row][1]}`)));
    this.words = null;
    this.panel.append($("label", {}, "Rows with this head's strongest weights ", choose), words);
    if (places.length) show(0);
    return undefined;
  }

  /** List a head's strongest cells with their exact weights, where the map is pooled. */
  strongestTable() {
    const { grid } = this;
    const { count } = grid.strongest;
    const tokens = grid.allQueries || grid.allKeys;
    const rows = [];
    for (let i = this.head * count; i < (this.head + 1) * count && rows.length < 200; i++) {
      const [row, key] = [grid.cells[3 * i], grid.cells[3 * i + 1]];
      rows.push([`${tokens[row][0]} ${tokens[row][1]}`, `${grid.allKeys[key][0]} ${grid.allKeys[key][1]}`, grid.cellWeights[3 * i + 2]]);
    }
    this.panel.append(tableOf({ title: `The ${rows.length} strongest weights of this head, exact`, columns: [{ title: "row" }, { title: "key" }, { title: "weight", digits: 4 }], rows }));
  }

  table() {
    const { grid } = this;
    if (grid.pooled && grid.cells && grid.allKeys) return this.strongestTable();
    const most = Math.min(grid.R, 512);
    const body = $("tbody", {});
    for (let row = 0; row < most; row++) {
      const order = grid.row(this.head, row).map((value, key) => [value, key]).filter(([value]) => !Number.isNaN(value) && value !== 0);
      order.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
      const strongest = order.slice(0, 5).map(([, key]) => `${grid.keys[key][1]} (${grid.keys[key][0]}) ${grid.text(this.head, row, key)}`);
      body.append($("tr", { "data-row": row }, $("th", { scope: "row" }, `${grid.queries[row][0]} ${grid.queries[row][1]}`), $("td", {}, strongest.join(" · ") || "–")));
    }
    this.panel.append($("table", {}, $("caption", {}, "Strongest keys of each row: token (position) weight"), $("thead", {}, $("tr", {}, $("th", { scope: "col" }, "row"), $("th", { scope: "col" }, "attends to"))), body));
  }

  picture() {
    const { grid } = this;
    const { png, rows, columns, query } = grid.picture;
    this.row = Math.min(query, grid.R - 1);
    const image = $("img", { src: `data:image/png;base64,${png}`, alt: "The picture as the model saw it" });
    const over = $("canvas", { width: columns, height: rows, "aria-hidden": "true" });
    const context = over.getContext("2d");
    const weights = grid.row(this.head, this.row).slice(-rows * columns);
    const largest = Math.max(...weights.map((value) => value || 0), 1e-9);
    const pixels = context.createImageData(columns, rows);
    weights.forEach((value, place) => {
      pixels.data.set([253, 120, 20, Math.round(255 * 0.9 * Math.sqrt(Math.max(value || 0, 0) / largest))], place * 4);
    });
    context.putImageData(pixels, 0, 0);
    this.panel.append($("div", { class: "overlay" }, image, over), $("p", {}, `Row ${grid.queries[this.row][1]}: the strongest patch has ${largest.toFixed(4)}.`));
  }

  /* Choosing */

  select(row, key, follow = true) {
    const { grid } = this;
    this.row = Math.min(Math.max(row, 0), grid.R - 1);
    this.key = Math.min(Math.max(key, 0), grid.C - 1);
    const [query, other] = [grid.queries[this.row], grid.keys[this.key]];
    this.readout.textContent = `row ${query[0]} “${query[1]}” → key ${other[0]} “${other[1]}”: ${grid.text(this.head, this.row, this.key)}`;
    if (this.tab === "matrix" && this.cursor) {
      const size = this.cell;
      Object.assign(this.cursor.style, { left: `${this.key * size}px`, top: `${this.row * size}px`, width: `${size}px`, height: `${size}px` });
      Object.assign(this.band.style, { top: `${this.row * size}px`, height: `${size}px`, width: `${grid.C * size}px` });
    }
    if (this.tab === "lines" && this.svg) this.drawLines();
    if (this.tab === "text" && this.words) this.shade();
    if (this.tab === "table") {
      for (const one of this.panel.querySelectorAll("tr[data-row]")) one.classList.toggle("chosen", Number(one.dataset.row) === this.row);
    }
    if (follow || location.hash) history.replaceState(null, "", this.hash());
  }

  drawLines() {
    const { grid } = this;
    this.svg.replaceChildren();
    for (let row = 0; row < grid.R; row++) {
      const chosen = row === this.row;
      for (let key = 0; key < grid.C; key++) {
        const value = Math.abs(grid.value(this.head, row, key) || 0);
        if (value < (chosen ? 0.02 : 0.3)) continue;
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        const at = (place) => place * this.lineHeight + this.lineHeight / 2;
        for (const [name, number] of Object.entries({ x1: 0, x2: 300, y1: at(row), y2: at(key) })) line.setAttribute(name, number);
        line.setAttribute("class", chosen ? "line chosen" : "line");
        line.setAttribute("stroke-width", chosen ? 1 + 3 * value : 1);
        line.setAttribute("opacity", chosen ? Math.min(1, 0.15 + value) : 0.15);
        this.svg.append(line);
      }
    }
    for (const one of this.panel.querySelectorAll("[data-row]")) one.classList.toggle("chosen", Number(one.dataset.row) === this.row);
  }

  shade() {
    const { grid } = this;
    const weights = grid.row(this.head, this.row);
    this.words.forEach((word, key) => {
      const value = weights[key];
      word.style.backgroundColor = color(grid, value);
      const light = isLight(grid, value);
      word.style.color = light === null ? "" : light ? "#000" : "#fff";
      word.classList.toggle("chosen", grid.R === grid.C && key === this.row);
      word.title = `${grid.text(this.head, this.row, key)}`;
    });
  }

  /* Keys */

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.dialog.open) return;
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (typing) {
      if (event.key === "Escape" || event.key === "Enter") { event.preventDefault(); this.panel.focus(); }
      return;
    }
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
    if (event.key in moves) {
      const step = moves[event.key];
      const across = event.key === "ArrowLeft" || event.key === "ArrowRight";
      if (event.target.getAttribute("role") === "tab") this.nextTab(step);
      else if (this.panel.contains(event.target) && this.tab !== "picture") this.select(this.row + (across ? 0 : step), this.key + (across ? step : 0));
      else this.move(across ? step : step * this.inARow());
      event.preventDefault();
    } else if (event.key === "/") { this.search.focus(); event.preventDefault(); }
    else if (event.key === "s") this.sort();
    else if (event.key === "?") this.help();
    else if (["m", "l", "t", "b"].includes(event.key)) { this.tab = { m: "matrix", l: "lines", t: "text", b: "table" }[event.key]; this.draw(); this.panel.focus(); }
  }

  nextTab(step) {
    const tabs = [...this.detail.querySelectorAll("[role=tab]")];
    const place = tabs.findIndex((one) => one.getAttribute("aria-selected") === "true");
    tabs[(place + step + tabs.length) % tabs.length].click();
  }

  inARow() {
    if (!this.buttons) return 1;
    const tops = [...this.buttons.values()].map((one) => one.offsetTop);
    const across = tops.filter((top) => top === tops[0]).length;
    return Math.max(across, 1);
  }

  move(step) {
    const place = this.order.indexOf(this.head) + step;
    if (place < 0 || place >= this.order.length) return;
    this.head = this.order[place];
    this.draw();
    history.replaceState(null, "", this.hash());
    if (this.buttons) {
      const button = this.buttons.get(this.head);
      button.focus({ preventScroll: true });
      button.scrollIntoView({ block: "nearest" });
    }
  }

  sort() {
    if (this.grid.heads.length < 2 || this.grid.unit === "mask") return;
    if (!this.measured) this.measured = this.grid.heads.map((_, head) => this.grid.metrics(head));
    const names = ["layer and head", ...Object.keys(this.measured[0])];
    this.sortedBy = names[(names.indexOf(this.sortedBy) + 1) % names.length];
    this.order = this.grid.heads.map((_, head) => head);
    if (this.sortedBy !== names[0]) this.order.sort((a, b) => this.measured[b][this.sortedBy] - this.measured[a][this.sortedBy]);
    this.status.textContent = `sorted by ${this.sortedBy}`;
    this.drawList();
    this.draw();
  }

  find() {
    const wanted = this.search.value.toLowerCase();
    const matches = wanted ? this.grid.queries.map((token, row) => [token, row]).filter(([token]) => token[1].toLowerCase().includes(wanted)) : [];
    this.status.textContent = wanted ? `${matches.length} of ${this.grid.R} rows have “${this.search.value}”` : "";
    if (matches.length) this.select(matches[0][1], this.key);
  }

  help() { this.dialog.showModal(); }
}

function label(token, size) {
  const element = $("span", { class: token[2] ? "special" : "" , title: `${token[0]}` }, token[1]);
  element.style.setProperty("--size", `${size}px`);
  return element;
}

function legend(grid) {
  if (grid.unit === "mask") return $("p", { class: "legend" }, "filled: may attend");
  const bar = $("canvas", { width: 255, height: 1, "aria-hidden": "true" });
  const context = bar.getContext("2d");
  for (let step = 0; step < 255; step++) {
    context.fillStyle = `rgb(${grid.palette[3 * step]} ${grid.palette[3 * step + 1]} ${grid.palette[3 * step + 2]})`;
    context.fillRect(step, 0, 1, 1);
  }
  const number = (value) => (value === 0 ? "0" : String(Number(value.toPrecision(2))));
  const loss = grid.exact ? "exact weights" : "weights in 255 steps, at most 0.4 % of the scale away; the strongest cells are exact";
  return $("div", { class: "legend" }, $("span", {}, number(grid.low)), bar, $("span", {}, number(grid.high)), $("span", { class: "quiet" }, `square-root scale · ${grid.pooled ? "pooled by max · " : ""}${loss}`));
}

function helpDialog() {
  const keys = [["← → ↑ ↓", "move between heads; in the matrix, lines, text and table: between cells"], ["/", "find a token"], ["s", "sort the heads by another number"], ["m l t b", "matrix, lines, text, table"], ["?", "this help"]];
  const list = $("dl", {}, ...keys.flatMap(([key, what]) => [$("dt", {}, key), $("dd", {}, what)]));
  const dialog = $("dialog", { "aria-label": "Keys" }, $("h2", {}, "Keys"), list);
  dialog.append($("button", { type: "button", onclick: () => dialog.close() }, "close"));
  return dialog;
}

/* Tables and rankings */

function cellText(value, column) {
  if (value === null) return "–";
  if (typeof value === "number" && !Number.isInteger(value)) return value.toFixed(column.digits);
  return Array.isArray(value) ? value.join(", ") : String(value);
}

function tableOf(table) {
  const body = $("tbody", {});
  const fill = (rows) => body.replaceChildren(...rows.map((row) => $("tr", {}, ...row.map((value, place) => $("td", { class: typeof value === "number" ? "number" : "" }, cellText(value, table.columns[place]))))));
  let sorted = -1;
  const heads = table.columns.map((column, place) => $("th", { scope: "col" }, $("button", { type: "button", onclick: () => {
    const sign = sorted === place ? -1 : 1;
    sorted = sign === 1 ? place : -1;
    const rows = [...table.rows].sort((a, b) => {
      if (a[place] === null || b[place] === null) return (a[place] === null) - (b[place] === null);
      return sign * (typeof a[place] === "number" && typeof b[place] === "number" ? b[place] - a[place] : String(a[place]).localeCompare(String(b[place])));
    });
    fill(rows);
  } }, column.unit ? `${column.title} (${column.unit})` : column.title)));
  fill(table.rows);
  return $("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title || "Table" }, $("table", {}, table.title ? $("caption", {}, table.title) : null, $("thead", {}, $("tr", {}, ...heads)), body));
}

async function ranking(data, home) {
  const scale = { low: data.low, high: data.high, palette: new Uint8Array(await unpack(data.colors)), unit: "weight", exact: true };
  for (const map of data.maps) {
    const head = $("tr", {}, $("td", {}), ...map.heads.map((one) => $("th", { scope: "col" }, `H${one}`)));
    const rows = map.layers.map((layer, row) => $("tr", {}, $("th", { scope: "row" }, `L${layer}`), ...map.values[row].map((value) => {
      const cell = $("td", { class: "cell" }, value === null ? "" : value.toFixed(2).replace(/^(-?)0\./, "$1."));
      cell.title = value === null ? map.gaps : String(value);
      if (value !== null) {
        cell.style.backgroundColor = color(scale, value);
        cell.style.color = isLight(scale, value) ? "#000" : "#fff";
      }
      return cell;
    })));
    const title = `${map.kind}: ${data.metric}${data.unit ? ` (${data.unit})` : ""}`;
    home.append($("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, $("table", { class: "map-table" }, $("caption", {}, title), $("thead", {}, head), $("tbody", {}, ...rows))));
  }
}

function steps(list, home) {
  for (const step of list) {
    home.append($("section", { class: "step" }, $("h2", {}, step.name), $("p", { class: "formula" }, step.formula, step.shape ? $("span", { class: "quiet" }, `  ${step.shape}`) : null), ...step.about.map((line) => $("p", {}, line)), ...step.tables.map(tableOf)));
  }
}

async function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const home = document.getElementById("app");
  const source = data.source ? [data.source.name, data.source.dtype, data.source.device].filter(Boolean).join(" · ") : "";
  document.getElementById("top").append($("p", { class: "quiet" }, `attncli ${data.command} ${data.version}${source ? ` · ${source.split("/").pop()}` : ""}`));
  if (data.grid) new Heads(await new Grid(data.grid).load(), home).start();
  if (data.ranking) await ranking(data.ranking, home);
  if (data.steps) steps(data.steps, home);
  for (const table of data.tables || []) home.append(tableOf(table));
  if (data.notes.length) home.append($("section", { class: "notes" }, $("h2", {}, "Notes"), $("ul", {}, ...data.notes.map((note) => $("li", {}, note)))));
  document.documentElement.dataset.ready = "yes";
}

if (typeof document !== "undefined") main();
if (typeof module !== "undefined") module.exports = { valueOf, stepOf, shown, Grid };
