// What the daemon tells: its status, asked for every few seconds, and its events
// as they happen. It goes on by itself when the daemon comes back.

const often = 2000; // ms between two looks at the status
const seldom = 10000; // the same while nobody sees the page
const patience = 10000; // ms that an answer may take
const longestWait = 15000; // ms between two tries to reach the daemon
const past = 1000; // events asked for that have been

const kinds = [
  "session_opened", "session_closed", "run_begun", "run_ended", "call_begun", "call_ended",
  "sandbox_made", "sandbox_leased", "sandbox_adopted", "sandbox_paused", "sandbox_resumed", "sandbox_ended", "pool_failed",
  "server_started", "server_stopped", "server_failed", "engine_found", "engine_lost",
  "approval_waiting", "approval_settled", "lost",
];

export class Feed {
  #source = null; // the stream of events, while there is one
  #timer = 0;
  #failures = 0; // in a row, of the status
  #cut = 0; // the same of the events
  #listenAt = 0; // when to ask for events again
  #asking = false;
  #seen = { process: "", number: 0 }; // the latest event

  // told has the functions status(status, now), event(event) and link(state, text).
  constructor(told) {
    this.told = told;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.look();
    });
  }

  // soon looks at the status before its time, since something has changed.
  soon() {
    if (this.#failures === 0) this.#again(200);
  }

  #again(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.look(), ms);
  }

  async look() {
    if (this.#asking) return;
    this.#asking = true;
    try {
      await this.#ask();
    } catch (error) {
      this.#gone(error);
    } finally {
      this.#asking = false;
    }
  }

  async #ask() {
    const answer = await fetch("/status", { signal: AbortSignal.timeout(patience), cache: "no-store" });
    if (answer.status === 401) {
      this.#stop();
      location.reload(); // which shows the login
      return;
    }
    if (!answer.ok) throw new Error(`the daemon answers ${answer.status}`);
    const status = await answer.json();
    this.#failures = 0;
    this.#again(document.hidden ? seldom : often);
    this.#listen();
    try {
      this.told.status(status, Date.parse(answer.headers.get("Date")));
    } catch (error) {
      reportError(error); // a fault of the page's, and not that the daemon is gone
    }
  }

  #gone(error) {
    console.info("no status:", error.message);
    this.#stop();
    this.#listenAt = 0;
    const wait = Math.min(longestWait, 500 * 2 ** this.#failures++);
    this.told.link("bad", "The daemon does not answer: trying again");
    this.#again(wait);
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #listen() {
    if (this.#source || Date.now() < this.#listenAt) return;
    const source = new EventSource(`/events?recent=${past}`);
    this.#source = source;
    source.onopen = () => {
      this.#cut = 0;
      this.told.link("good", "Live");
    };
    // The browser would try again for ever at one pace, and not after a refusal.
    source.onerror = () => {
      if (this.#source !== source) return;
      source.close();
      this.#source = null;
      this.#listenAt = Date.now() + Math.min(longestWait, 500 * 2 ** this.#cut++);
      this.told.link("warn", "No events: trying again");
      this.#again(500);
    };
    for (const kind of kinds) source.addEventListener(kind, (message) => this.#take(message));
  }

  #take(message) {
    let event;
    try {
      event = JSON.parse(message.data);
    } catch {
      return; // cut off in the middle; what is lost is told by the next stream
    }
    // A new stream begins with the past, of which we have a part.
    const at = message.lastEventId.lastIndexOf("-");
    const [process, number] = [message.lastEventId.slice(0, at), Number(message.lastEventId.slice(at + 1))];
    if (event.type !== "lost" && at > 0) {
      if (process === this.#seen.process && number <= this.#seen.number) return;
      this.#seen = { process, number };
    }
    this.told.event(event);
  }
}
