// Charts: each is drawn from the table that stands beside it, so that the two cannot differ.
"use strict";
(() => {
  const HEIGHT = 240;
  const charts = new Map();

  const numberOf = (cell, factor) =>
    cell.dataset.order === undefined ? null : Number.parseFloat(cell.dataset.order) * factor;

  // Under the axis: without the year where all have the same, and a line for each word.
  const shortened = (labels) => {
    const year = /^\d{4}-(?=\d)/.exec(labels[0])?.[0] ?? "";
    const same = labels.every((label) => label.startsWith(year));
    return labels.map((label) => (same ? label.slice(year.length) : label).replaceAll(" ", "\n"));
  };

  const read = (figure) => {
    const table = figure.querySelector("table");
    const factor = figure.dataset.unit === "%" ? 100 : 1;
    const rows = [...table.tBodies[0].rows];
    const columns = figure.dataset.series.split(",").map(Number);
    return {
      title: table.tHead.rows[0].cells[0].textContent,
      labels: rows.map((row) => row.cells[0].textContent),
      names: columns.map((column) => table.tHead.rows[0].cells[column].textContent),
      values: columns.map((column) => rows.map((row) => numberOf(row.cells[column], factor))),
    };
  };

  // Bars stand on each other: the later series are drawn first, each as high as all before it and itself.
  const stacked = (values) =>
    values.map((_, last) =>
      values[0].map((_, row) => {
        const parts = values.slice(0, last + 1).map((series) => series[row]);
        return parts.every((part) => part === null) ? null : parts.reduce((sum, part) => sum + (part ?? 0), 0);
      }),
    );

  const options = (figure, told, drawn, style) => {
    const { chart, unit } = figure.dataset;
    const bars = chart === "bars";
    const colour = (name) => style.getPropertyValue(name).trim();
    const text = colour("--muted");
    const short = shortened(told.labels);
    const axis = { stroke: text, grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 } };
    const series = drawn.map(({ number }) => ({
      label: told.names[number],
      stroke: colour(`--series-${number + 1}`),
      width: bars ? 0 : 2,
      fill: bars ? colour(`--series-${number + 1}`) : undefined,
      paths: bars ? uPlot.paths.bars({ size: [0.8, 60], gap: 1 }) : undefined,
      points: bars ? { show: false } : { show: told.labels.length < 100, size: 5, fill: colour(`--series-${number + 1}`) },
      value: (_, __, ___, row) => {
        const value = row === null ? undefined : told.values[number][row];
        return value === undefined ? "" : value === null ? "n/a" : `${value.toLocaleString("en", { maximumFractionDigits: 1 })} ${unit}`;
      },
    }));
    const lines = short.flatMap((label) => label.split("\n"));
    const space = Math.max(24, 7 * Math.max(...lines.map((line) => line.length)) + 10);
    const height = 34 + 14 * Math.max(...short.map((label) => label.split("\n").length - 1));
    return {
      width: Math.max(200, figure.querySelector(".drawing").clientWidth),
      height: HEIGHT,
      padding: [8, 12, 0, 0],
      cursor: { y: false, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: (_, low, high) => [low - 0.6, high + 0.6] },
        y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] },
      },
      axes: [
        {
          ...axis,
          space,
          size: height,
          grid: { show: false },
          incrs: [1, 2, 3, 4, 5, 6, 7, 10, 12, 14, 20, 24, 25, 28, 50, 100, 200, 500],
          values: (_, splits) => splits.map((at) => (Number.isInteger(at) ? (short[at] ?? "") : "")),
        },
        { ...axis, size: 64, values: (_, splits) => splits.map((at) => at.toLocaleString("en") + (unit === "%" ? " %" : "")) },
      ],
      series: [{ label: told.title, value: (_, at) => (at === null ? "" : told.labels[at]) }, ...series],
    };
  };

  const draw = (figure) => {
    charts.get(figure)?.destroy();
    const told = read(figure);
    if (told.labels.length === 0) return;
    const style = getComputedStyle(document.documentElement);
    const bars = figure.dataset.chart === "bars";
    const heights = bars ? stacked(told.values) : told.values;
    const drawn = heights.map((values, number) => ({ values, number }));
    if (bars) drawn.reverse();
    const data = [told.labels.map((_, row) => row), ...drawn.map(({ values }) => values)];
    charts.set(figure, new uPlot(options(figure, told, drawn, style), data, figure.querySelector(".drawing")));
  };

  const figures = [...document.querySelectorAll("figure[data-chart]")];
  figures.forEach(draw);
  document.addEventListener("themechange", () => figures.forEach(draw));
  const resized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const chart = charts.get(target.parentElement);
      const width = Math.max(200, Math.floor(contentRect.width));
      if (chart && chart.width !== width) chart.setSize({ width, height: HEIGHT });
    }
  });
  for (const figure of figures) resized.observe(figure.querySelector(".drawing"));
})();
