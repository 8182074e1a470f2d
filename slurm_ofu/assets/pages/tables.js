// Tables: sorted by any column, filtered, and page by page where they are long.
// A cell is sorted by a number; one without is not known, and comes last in either direction.
"use strict";
(() => {
  const FILTER_FROM = 20; // rows
  const PAGE_SIZES = [100, 250, 500];

  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  const isNumeric = (column) => column.classes.startsWith("numeric");

  // Both kinds of tables answer the same questions: how many rows, what orders a row, does it match, show these.
  const standing = (table) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    return {
      count: rows.length,
      paged: false,
      numeric: [...table.tHead.rows[0].cells].map((cell) => cell.classList.contains("numeric")),
      ranks: (column) =>
        Float64Array.from(rows, (row) => Number.parseFloat(row.cells[column].dataset.order ?? "NaN")),
      matching: (words) => texts.map((text) => words.every((word) => text.includes(word))),
      show: (order) => body.replaceChildren(...Array.from(order, (number) => rows[number])),
    };
  };

  const stored = (table, data, root) => {
    const body = table.tBodies[0];
    const { columns, rows } = data;
    const lower = columns.map((column) => (isNumeric(column) ? null : column.words.map((word) => word.toLowerCase())));
    const cellOf = (column, number, first) => {
      const { words, cells, classes, paths } = columns[column];
      const cell = make(first ? "th" : "td");
      if (first) cell.scope = "row";
      else cell.className = classes;
      const text = words[cells[number]];
      const path = paths[number];
      cell.append(path === undefined ? text : make("a", { href: root + path, textContent: text }));
      return cell;
    };
    return {
      count: rows,
      paged: true,
      numeric: columns.map(isNumeric),
      ranks: (column) => {
        const { orders, cells } = columns[column];
        const known = Float64Array.from(orders, (order) => (order === null ? Number.NaN : order));
        return Float64Array.from(cells, (word) => known[word]);
      },
      matching: (words) => {
        const matches = new Array(rows).fill(true);
        for (const wanted of words) {
          const hits = lower.map((texts) => texts && texts.map((text) => text.includes(wanted)));
          for (let row = 0; row < rows; row++) {
            matches[row] &&= columns.some((column, number) => hits[number]?.[column.cells[row]]);
          }
        }
        return matches;
      },
      show: (order) =>
        body.replaceChildren(
          ...Array.from(order, (number) =>
            make("tr", {}, ...columns.map((_, column) => cellOf(column, number, column === 0))),
          ),
        ),
    };
  };

  const sorted = (ranks, descending) => {
    const order = Uint32Array.from(ranks, (_, number) => number);
    const sign = descending ? -1 : 1;
    return order.sort((left, right) => {
      const [one, other] = [ranks[left], ranks[right]];
      if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other) || left - right;
      return sign * (one - other) || left - right;
    });
  };

  const start = (holder) => {
    const table = holder.querySelector("table.sortable");
    const { paged, root } = holder.dataset;
    const source =
      paged === undefined ? standing(table) : stored(table, JSON.parse(document.getElementById(paged).textContent), root);
    const first = Number(table.dataset.sorted);
    const state = { column: first, descending: source.numeric[first], words: [], page: 0, size: PAGE_SIZES[0] };
    const heads = [...table.tHead.rows[0].cells];
    const tools = source.count > FILTER_FROM ? toolsOf(holder, table, source, state, () => render()) : null;
    let order = null;

    const render = (resort = false) => {
      if (resort || order === null) order = sorted(source.ranks(state.column), state.descending);
      const matches = source.matching(state.words);
      const found = order.filter((number) => matches[number]);
      const size = source.paged ? state.size : found.length || 1;
      const pages = Math.max(1, Math.ceil(found.length / size));
      state.page = Math.min(Math.max(0, state.page), pages - 1);
      source.show(found.subarray(state.page * size, (state.page + 1) * size));
      heads.forEach((head, column) => {
        if (column === state.column) head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      tools?.tell(found.length, pages);
    };

    heads.forEach((head, column) => {
      const button = make("button", { type: "button", textContent: head.textContent });
      button.addEventListener("click", () => {
        state.descending = state.column === column ? !state.descending : source.numeric[column];
        state.column = column;
        state.page = 0;
        render(true);
      });
      head.replaceChildren(button);
    });
    holder.querySelector(".only-first")?.remove();
    render();
  };

  const toolsOf = (holder, table, source, state, render) => {
    const filter = make("input", { type: "search", autocomplete: "off", spellcheck: false });
    const status = make("p", { className: "status" });
    status.setAttribute("role", "status");
    const bar = make("div", { className: "tools" }, make("label", {}, "Filter ", filter));
    filter.addEventListener("input", () => {
      state.words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      state.page = 0;
      render();
    });
    const turns = [];
    if (source.paged) {
      const size = make("select");
      for (const rows of PAGE_SIZES) size.add(new Option(String(rows), String(rows)));
      size.addEventListener("change", () => {
        state.size = Number(size.value);
        state.page = 0;
        render();
      });
      const turn = (text, to) => {
        const button = make("button", { type: "button", textContent: text });
        button.addEventListener("click", () => {
          if (button.getAttribute("aria-disabled") === "true") return;
          state.page = to();
          render();
        });
        turns.push(button);
        return button;
      };
      let last = 0;
      bar.append(
        make("label", {}, "Rows ", size),
        turn("First", () => 0),
        turn("Previous", () => state.page - 1),
        turn("Next", () => state.page + 1),
        turn("Last", () => last),
      );
      turns.last = (pages) => {
        last = pages - 1;
      };
    }
    bar.append(status);
    holder.prepend(bar);
    return {
      tell: (found, pages) => {
        const some = found === source.count ? "" : ` of ${source.count.toLocaleString("en")}`;
        const where = source.paged ? `, page ${state.page + 1} of ${pages}` : "";
        status.textContent = `${found.toLocaleString("en")}${some} row${found === 1 && !some ? "" : "s"}${where}`;
        turns.last?.(pages);
        turns.forEach((button, number) => {
          const end = number < 2 ? state.page === 0 : state.page === pages - 1;
          button.setAttribute("aria-disabled", String(end));
        });
      },
    };
  };

  for (const holder of document.querySelectorAll("div.table")) start(holder);
})();
