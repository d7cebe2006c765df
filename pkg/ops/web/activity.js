// The list of what happens: runs, calls and whatever else there is to know, the
// newest first. A run or a call is one line, from its begin to its end.

import { byId, clock, count, duration, el, mark, say } from "./dom.js";

const most = 200; // lines
const freshFor = 5000; // ms: an event of the past does not flash

export class Activity {
  #lines = []; // the newest first
  #open = new Map(); // lines that have not ended, by what they tell of
  #number = 0;
  #held = null; // while paused: what comes, the oldest first
  #list = byId("activity");
  #button = byId("pause");

  constructor() {
    this.#button.addEventListener("click", () => this.#toggle());
  }

  #toggle() {
    const held = this.#held;
    this.#held = held ? null : [];
    for (const event of held ?? []) this.#show(event);
    this.#label();
  }

  #label() {
    const n = this.#held?.length ?? 0;
    say(this.#button, this.#held ? `Resume (${n >= most ? `${most} or more` : n} new)` : "Pause");
  }

  // add tells of an event. The page's clock reads now.
  add(event, now = Date.now()) {
    const fresh = Math.abs(now - Date.parse(event.time)) < freshFor;
    if (!this.#held) {
      this.#show({ ...event, fresh });
      return;
    }
    this.#held.push({ ...event, fresh: false });
    if (this.#held.length > most * 2) this.#held.splice(0, most);
    this.#label();
  }

  // orphan says of what has not ended that its end is not known: the daemon that
  // would have told is gone.
  orphan() {
    for (const line of this.#open.values()) this.#state(line, "warn", "end not seen");
    this.#open.clear();
  }

  #show(event) {
    const key = about(event);
    if (key && event.type.endsWith("_ended")) {
      const line = this.#open.get(key);
      if (line) {
        this.#open.delete(key);
        this.#end(line, event);
        return;
      }
    }
    const words = describe(event);
    if (!words) return;
    const line = this.#line(event, words);
    if (event.type.endsWith("_ended") && key) this.#end(line, event);
    else if (key) this.#open.set(key, line);
  }

  #line(event, words) {
    const node = el("li", { "data-kind": event.type });
    const time = el("time", { datetime: event.time }, clock(Date.parse(event.time)));
    const state = el("span", { class: "state" });
    node.append(time, state, el("span", { class: "what" }, words.what));
    const line = { node, state, key: about(event) };
    if (words.detail) node.append(el("span", { class: "detail" }, words.detail));
    this.#state(line, words.state, words.label);
    if (event.fresh) node.classList.add("new");
    this.#list.prepend(node);
    this.#lines.unshift(line);
    if (this.#lines.length > most) this.#drop(this.#lines.pop());
    byId("activity-none").hidden = true;
    return line;
  }

  #drop(line) {
    line.node.remove();
    if (this.#open.get(line.key) === line) this.#open.delete(line.key);
  }

  #end(line, event) {
    const outcome = event.status ?? event.outcome ?? "ended";
    const took = duration(event.duration_ms);
    this.#state(line, outcome === "ok" ? "good" : "bad", took ? `${outcome.replaceAll("_", " ")}, ${took}` : outcome);
    line.node.dataset.outcome = outcome;
  }

  #state(line, state, label) {
    mark(line.state, state);
    say(line.state, label);
  }
}

// about names the run or call that an event is about, "" for others.
function about(e) {
  if (e.type.startsWith("run_")) return JSON.stringify(["run", e.session, e.python, e.run]);
  if (e.type.startsWith("call_")) return JSON.stringify(["call", e.session, e.python, e.call]);
  return "";
}

// who names an agent's session, and the Python session in it.
function who(e) {
  const name = e.client || "an agent";
  const python = e.python ? `, Python session ${e.python}` : "";
  return e.session ? `${name} (${e.session})${python}` : name;
}

const short = (id) => (id ?? "").slice(0, 12);
const joined = (...texts) => texts.filter(Boolean).join(": ");

// words has how each kind of event is told; others are not.
const words = {
  run_begun: (e) => ({ state: "busy", label: "running", what: `Run ${e.run ?? ""} of ${who(e)}` }),
  run_ended: (e) => words.run_begun(e),
  call_begun: (e) => ({ state: "busy", label: "calling", what: `${e.server}.${e.tool}`, detail: `for ${who(e)}` }),
  call_ended: (e) => words.call_begun(e),
  session_opened: (e) => ({ label: "session", what: `Session ${e.session} opened`, detail: e.cwd }),
  session_closed: (e) => ({ label: "session", what: `Session of ${who(e)} closed`, detail: e.count > 0 ? `after ${count(e.count, "call")}` : "" }),
  sandbox_ended: (e) => {
    if (e.reason === "closed") return null;
    return { state: "warn", label: "sandbox", what: `Sandbox ${short(e.sandbox)} ended`, detail: joined(e.reason, e.detail) };
  },
  pool_failed: (e) => ({ state: "bad", label: "pool", what: "No sandbox could be made", detail: joined(e.count > 1 ? `${e.count} in a row` : "", e.detail) }),
  server_started: (e) => ({ state: "good", label: "server", what: `${e.server} ${e.reason === "restart" ? "started again" : "started"}`, detail: duration(e.duration_ms) }),
  server_stopped: (e) => ({ label: "server", what: `${e.server} stopped`, detail: e.reason }),
  server_failed: (e) => ({ state: "bad", label: "server", what: `${e.server} failed`, detail: e.detail }),
  engine_found: (e) => ({ state: "good", label: "engine", what: "Engine found", detail: e.detail }),
  engine_lost: (e) => ({ state: "bad", label: "engine", what: "Engine lost", detail: e.detail }),
  approval_waiting: (e) => ({ state: "warn", label: "approval", what: `${e.server}.${e.tool} waits for you`, detail: `for ${who(e)}` }),
  approval_settled: (e) => ({ label: "approval", what: `${e.server}.${e.tool} waits no more`, detail: joined(e.outcome ?? e.reason, e.detail) }),
  lost: (e) => ({ state: "warn", label: "events", what: e.count ? `${count(e.count, "event")} not seen` : "Some events not seen" }),
  restarted: () => ({ state: "warn", label: "daemon", what: "The daemon was started again" }),
};

function describe(event) {
  return Object.hasOwn(words, event.type) ? words[event.type](event) : null;
}
