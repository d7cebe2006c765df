// Three small charts of the last minutes.

import { byId, count, duration, say, svg } from "./dom.js";

const minutes = 15; // that runs are kept
const poolMinutes = 10;
const mostRuns = 2000;
const mostDots = 400;
const height = 120;
const [left, right, top, bottom] = [52, 8, 8, 18];

export class Charts {
  #runs = []; // {at, ms, ok, status}, the oldest first
  #use = []; // {at, leased, warm, creating}, the oldest first

  constructor() {
    const observer = new ResizeObserver(() => this.draw());
    for (const id of ["rate", "time", "use"]) observer.observe(byId(id));
  }

  run(event) {
    const run = { at: Date.parse(event.time), ms: event.duration_ms ?? 0, ok: event.status === "ok", status: event.status ?? "" };
    if (!(run.at > 0)) return;
    this.#runs.push(run);
    if (this.#runs.length > mostRuns) this.#runs.shift();
  }

  pool(pool, at) {
    this.#use.push({ at, leased: pool.leased, warm: pool.warm, creating: pool.creating });
    while (this.#use[0].at < at - poolMinutes * 60e3) this.#use.shift();
  }

  // draw shows what there is at a time.
  draw(now = this.now) {
    if (!now) return;
    this.now = now;
    const runs = this.#runs.filter((run) => run.at > now - minutes * 60e3);
    this.#rate(runs, now);
    this.#time(runs, now);
    this.#pool(now);
  }

  #rate(runs, now) {
    const slots = Array.from({ length: minutes }, () => ({ ok: 0, bad: 0 }));
    for (const run of runs) {
      const slot = slots[minutes - 1 - Math.floor(Math.max(0, now - run.at) / 60e3)];
      if (slot) slot[run.ok ? "ok" : "bad"]++;
    }
    const peak = Math.max(...slots.map((slot) => slot.ok + slot.bad));
    const bad = runs.filter((run) => !run.ok).length;
    const words = runs.length === 0 ? `No run in the last ${minutes} minutes.`
      : `${count(runs.length, "run")} in ${minutes} minutes, at most ${peak} in one${bad ? `; ${bad} did not end well` : ""}.`;
    const plot = new Plot("rate", words, ceiling(peak));
    plot.across(`${minutes} min ago`);
    const wide = plot.width / minutes;
    slots.forEach((slot, i) => {
      const x = left + i * wide + 1;
      let y = plot.y(0);
      for (const [kind, n] of [["ok", slot.ok], ["bad", slot.bad]]) {
        const tall = plot.y(0) - plot.y(n);
        y -= tall;
        if (n === 0) continue;
        const bar = svg("rect", { x, y, width: Math.max(1, wide - 2), height: tall, class: kind === "ok" ? "ok" : "not-ok" });
        bar.append(svg("title", {}, `${count(n, "run")} ${kind === "ok" ? "ended well" : "did not end well"}`));
        plot.add(bar);
      }
    });
    plot.show();
  }

  #time(runs, now) {
    const times = runs.map((run) => run.ms).sort((a, b) => a - b);
    const at = (share) => duration(times[Math.min(times.length - 1, Math.floor(times.length * share))]);
    const words = times.length === 0 ? "No run yet." : `Half took at most ${at(0.5)}, 95 % at most ${at(0.95)}, the longest ${at(1)}.`;
    // Milliseconds and minutes are to be seen in one picture: a step is tenfold.
    const decades = Math.max(3, Math.ceil(Math.log10(Math.max(1, times.at(-1) ?? 1))));
    const plot = new Plot("time", words, decades, (n) => duration(10 ** n), decades > 3 ? 2 : 1);
    plot.across(`${minutes} min ago`);
    for (const run of runs.slice(-mostDots)) {
      const x = left + plot.width * (1 - Math.max(0, now - run.at) / (minutes * 60e3));
      const y = plot.y(Math.log10(Math.max(1, run.ms)));
      const dot = run.ok ? svg("circle", { cx: x, cy: y, r: 3, class: "ok" })
        : svg("path", { d: `M${x - 4} ${y + 3.5}L${x} ${y - 4}L${x + 4} ${y + 3.5}Z`, class: "not-ok" });
      dot.append(svg("title", {}, `${run.status}, ${duration(run.ms)}`));
      plot.add(dot);
    }
    plot.show();
  }

  #pool(now) {
    const last = this.#use.at(-1);
    const peak = Math.max(0, ...this.#use.map((s) => s.leased + s.warm));
    const most = Math.max(0, ...this.#use.map((s) => s.leased));
    const words = last ? `Now ${last.leased} in use and ${last.warm} warm; at most ${most} in use since this page was opened.` : "Not known yet.";
    const plot = new Plot("use", words, ceiling(peak));
    const span = last ? Math.min(poolMinutes, Math.max(1, Math.ceil((now - this.#use[0].at) / 60e3))) : poolMinutes;
    plot.across(`${span} min ago`);
    const x = (at) => left + plot.width * (1 - Math.min(1, Math.max(0, now - at) / (span * 60e3)));
    for (const [kind, value] of [["warm", (s) => s.leased + s.warm], ["leased", (s) => s.leased]]) {
      if (!last) break;
      let edge = "";
      for (const s of this.#use) edge += edge ? `H${x(s.at)}V${plot.y(value(s))}` : `M${x(s.at)} ${plot.y(value(s))}`;
      edge += `H${x(now)}`;
      plot.add(svg("path", { d: `${edge}V${plot.y(0)}H${x(this.#use[0].at)}Z`, class: `area ${kind}` }));
      plot.add(svg("path", { d: edge, class: `edge ${kind}` }));
    }
    plot.show();
  }
}

// ceiling is an even number to end a scale of whole things with.
function ceiling(n) {
  if (n <= 4) return 4;
  const step = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 6, 8, 10].map((m) => m * step).find((m) => m >= n);
}

// A Plot is a drawing with a scale at its left side.
class Plot {
  constructor(id, words, peak, label = String, every = peak / 4 < 1 ? 1 : peak / 2) {
    this.box = byId(id);
    this.whole = Math.max(160, this.box.clientWidth);
    this.width = this.whole - left - right;
    this.peak = peak;
    this.svg = svg("svg", { viewBox: `0 0 ${this.whole} ${height}`, height, role: "img", "aria-label": `${byId(`${id}-title`).textContent}: ${words}` });
    say(byId(`${id}-words`), words);
    for (let n = 0; n <= peak; n += every) {
      this.add(svg("line", { x1: left, x2: this.whole - right, y1: this.y(n), y2: this.y(n), class: "grid" }));
      this.add(svg("text", { x: left - 6, y: this.y(n) + 4, "text-anchor": "end" }, label(n)));
    }
  }

  y(n) {
    return top + (height - top - bottom) * (1 - n / this.peak);
  }

  across(begin) {
    this.add(svg("text", { x: left, y: height - 4 }, begin));
    this.add(svg("text", { x: this.whole - right, y: height - 4, "text-anchor": "end" }, "now"));
  }

  add(node) {
    this.svg.append(node);
  }

  show() {
    this.box.replaceChildren(this.svg);
  }
}
