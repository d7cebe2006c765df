// What the status says, in cards and tables.

import { age, byId, bytes, count, duration, el, mark, say, svg, sync } from "./dom.js";

export function overview(status) {
  const ready = byId("ready");
  say(ready, status.ready ? "Ready" : "Not ready");
  mark(ready, status.ready ? "good" : "bad");
  say(byId("reason"), status.ready ? "Sessions can start." : status.reason || "");
  engine(status.engine);
  pool(status.pool);
  queues(status);
}

function engine(e) {
  say(byId("engine"), e.name ? `${e.name} ${e.version ?? ""}` : "None");
  const more = [e.rootless ? "rootless" : "rootful", e.cgroup_version && `cgroups v${e.cgroup_version}`, e.endpoint, e.image];
  const looked = e.error ? "It is looked for again and again." : "";
  say(byId("engine-more"), e.name ? more.filter(Boolean).join("\n") : looked);
  const list = (e.degraded ?? []).map((text, i) => ({ text, i }));
  byId("degraded").hidden = list.length === 0;
  sync(byId("degraded"), list, (d) => String(d.i), () => el("li"), (node, d) => say(node, d.text));
}

const kinds = [["leased", "in use"], ["warm", "warm"], ["creating", "being made"]];

function pool(p) {
  const parts = kinds.map(([kind, name]) => ({ kind, name, n: p[kind] }));
  const used = parts.reduce((sum, part) => sum + part.n, 0);
  parts.push({ kind: "free", name: "more possible", n: Math.max(0, p.max - used) });
  const label = parts.map((part) => `${part.n} ${part.name}`).join(", ");
  const bar = byId("pool-bar");
  if (bar.dataset.label !== label) {
    bar.dataset.label = label;
    bar.replaceChildren(drawBar(parts, Math.max(1, p.max, used), label));
  }
  sync(byId("pool-key"), parts, (part) => part.kind, (part) => el("li", { class: part.kind }), (node, part) => say(node, `${part.n} ${part.name}`));
  say(byId("pool-more"), `${count(p.target, "sandbox is", "sandboxes are")} kept warm; ${p.limit}`);
  const failed = p.failures > 0 ? `${count(p.failures, "launch", "launches")} failed in a row` : "";
  say(byId("pool-problem"), [failed, p.error].filter(Boolean).join(": "));
}

function drawBar(parts, whole, label) {
  const drawing = svg("svg", { viewBox: "0 0 100 14", height: 14, preserveAspectRatio: "none", role: "img", "aria-label": label });
  let x = 0;
  for (const { kind, n } of parts) {
    const width = (100 * n) / whole;
    if (n > 0) drawing.append(svg("rect", { x, y: 0, width: Math.max(0.5, width - 0.3), height: 14, class: kind }));
    x += width;
  }
  return drawing;
}

function queues(status) {
  const q = status.queues ?? {};
  const rows = [
    ["Runs", q.runs], ["Sandboxes", q.leases], ["Calls of servers", q.calls], ["Approvals", q.approvals ?? status.approvals],
    ["Shims to come back", q.shims],
  ].filter(([, n]) => n !== undefined).flatMap(([name, n]) => [{ tag: "dt", key: name, text: name }, { tag: "dd", key: `${name} n`, text: String(n) }]);
  sync(byId("queues"), rows, (row) => row.key, (row) => el(row.tag), (node, row) => say(node, row.text));
}

const pythonStates = { running: "busy", idle: "good", paused: "", none: "" };

// sessions shows each agent with a line for each of its Python sessions.
export function sessions(status, now) {
  const usage = new Map((status.sandboxes ?? []).map((s) => [s.id, s.usage]));
  const list = status.sessions ?? [];
  byId("sessions-none").hidden = list.length > 0;
  const items = list.map((s, i) => ({ ...s, i }));
  sync(byId("sessions"), items, (s) => `${s.i} ${s.id}`, () => el("tbody"), (body, s) => {
    const none = { name: "", state: "none", since: s.since, calls: s.calls, running: s.running };
    const pythons = s.pythons?.length ? s.pythons : [none];
    const rows = pythons.map((p, i) => ({ ...p, i, of: s, usage: usage.get(p.sandbox), rows: pythons.length }));
    sync(body, rows, (p) => String(p.i), sessionRow, (row, p) => fillSession(row, p, now));
  });
}

function sessionRow(p) {
  const row = el("tr");
  if (p.i === 0) row.append(el("th", { scope: "rowgroup" }, el("span", { class: "name" }), el("span", { class: "quiet" })));
  row.append(el("td"), el("td", {}, el("span", { class: "state" }), el("span", { class: "problem" })));
  for (let n = 0; n < 4; n++) row.append(el("td", { class: "number" }));
  return row;
}

function fillSession(row, p, now) {
  const cells = [...row.children];
  if (p.i === 0) {
    const head = cells.shift();
    head.rowSpan = p.rows;
    say(head.children[0], p.of.client || "unknown agent");
    say(head.children[1], `${p.of.id}, process ${p.of.pid}, ${p.of.cwd}`);
  }
  say(cells[0], p.name || "default");
  mark(cells[1].children[0], pythonStates[p.state]);
  say(cells[1].children[0], p.state === "none" ? "no sandbox" : p.state);
  say(cells[1].children[1], p.lost ? ` ${p.lost}` : "");
  say(cells[2], age(now - Date.parse(p.since)));
  say(cells[3], p.running > 0 ? `${p.calls} (${p.running} running)` : String(p.calls));
  say(cells[4], p.usage ? bytes(p.usage.memory_bytes) : "–");
  say(cells[5], p.usage ? duration(p.usage.cpu_seconds * 1000) : "–");
}

const serverStates = { started: "good", starting: "busy", failed: "bad", stopped: "" };

export function servers(status) {
  const list = (status.servers ?? []).map((s, i) => ({ ...s, i }));
  byId("servers-none").hidden = list.length > 0;
  const body = byId("servers").tBodies[0];
  sync(body, list, (s) => `${s.i} ${s.name}`, serverRow, fillServer);
}

function serverRow() {
  const row = el("tr", {}, el("th", { scope: "row" }, el("span", { class: "name" }), el("span", { class: "quiet" }), el("span", { class: "problem" })));
  row.append(el("td", {}, el("span", { class: "state" })));
  for (let n = 0; n < 6; n++) row.append(el("td", { class: "number" }));
  return row;
}

function fillServer(row, s) {
  const [head, state, ...numbers] = row.children;
  say(head.children[0], s.name);
  const more = [s.transport, s.private && "one session's own", s.restarts > 0 && count(s.restarts, "restart"),
    s.changed_tools?.length > 0 && `${count(s.changed_tools.length, "tool")} changed: see bridged pins`];
  say(head.children[1], more.filter(Boolean).join(", "));
  say(head.children[2], [s.error, s.warning].filter(Boolean).join("\n").slice(0, 300));
  mark(state.children[0], serverStates[s.state]);
  say(state.children[0], s.state);
  const values = [s.calls, s.errors, duration(s.p50_ms), duration(s.p95_ms), s.in_flight, s.waiting];
  values.forEach((value, i) => say(numbers[i], value === "" ? "–" : String(value)));
}
