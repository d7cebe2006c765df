// The page of a daemon: what it is and does, as it happens.

import { Activity } from "./activity.js";
import { Approvals } from "./approvals.js";
import { Charts } from "./charts.js";
import { age, byId, clock, mark, say } from "./dom.js";
import { Feed } from "./feed.js";
import { overview, servers, sessions } from "./tables.js";

const activity = new Activity();
const approvals = new Approvals();
const charts = new Charts();
let started = ""; // of the daemon that answered last
let answered = 0; // when that was
let skew = 0; // ms that the daemon's clock is ahead of ours

const now = () => Date.now() + skew;

const feed = new Feed({
  status(status, theirs) {
    // A Date header has whole seconds: less is no difference.
    skew = Math.abs(theirs - Date.now()) > 2000 ? theirs - Date.now() : 0;
    if (started && started !== status.started) {
      activity.orphan();
      activity.add({ type: "restarted", time: new Date(now()).toISOString() }, now());
    }
    started = status.started;
    answered = now();
    say(byId("about"), `${status.version}, process ${status.pid}, up ${age(now() - Date.parse(status.started))}`);
    overview(status);
    sessions(status, now());
    servers(status);
    approvals.look(status.approvals ?? 0, now());
    charts.pool(status.pool, now());
    charts.draw(now());
  },
  event(event) {
    activity.add(event, now());
    if (event.type === "run_ended") charts.run(event);
    feed.soon();
  },
  link(state, text) {
    mark(byId("link"), state);
    say(byId("link"), text);
    document.title = state === "bad" ? "bridged: gone" : "bridged";
    if (state === "bad") unknown();
  },
});

// unknown says that what the page shows is what was.
function unknown() {
  say(byId("ready"), "Not known");
  mark(byId("ready"), "warn");
  say(byId("reason"), answered ? `The rest of this page is as it was at ${clock(answered)}.` : "");
}

feed.look();
