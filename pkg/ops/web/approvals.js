// The calls that wait for a person, and what the person says.

import { age, byId, el, say } from "./dom.js";

const tellFor = 8000; // ms that an answered call stays, so that others don't move under the pointer

export class Approvals {
  #list = byId("approval-list");
  #waiting = false;
  #asking = false;
  #settled = new Set(); // IDs that stay for a moment

  // look shows those that wait; n is how many the status knows of.
  async look(n, now) {
    if ((n === 0 && !this.#waiting) || this.#asking) return;
    this.#asking = true;
    try {
      const answer = await fetch("/approvals", { signal: AbortSignal.timeout(10000), cache: "no-store" });
      if (answer.ok) this.#show(await answer.json(), now);
    } catch (error) {
      console.info("no approvals:", error.message); // the status tells that the daemon is gone
    } finally {
      this.#asking = false;
    }
  }

  #show(waiting, now) {
    const there = new Set(waiting.map((a) => a.id));
    for (const node of [...this.#list.children]) {
      if (!there.has(node.dataset.id) && !this.#settled.has(node.dataset.id)) this.#settle(node, "This call waits no more.");
    }
    for (const a of waiting) {
      let node = [...this.#list.children].find((item) => item.dataset.id === a.id);
      if (!node) {
        node = this.#make(a);
        this.#list.append(node);
      }
      if (!this.#settled.has(a.id)) say(node.querySelector(".expires"), `Waits for ${age(now - Date.parse(a.since))}; denied in ${age(Date.parse(a.expires) - now)}.`);
    }
    this.#hide();
  }

  #hide() {
    this.#waiting = this.#list.children.length > 0;
    byId("approvals").hidden = !this.#waiting;
  }

  #make(a) {
    const name = `${a.server}.${a.tool}`;
    const button = (text, answer) => {
      const node = el("button", { type: "button", "aria-label": `${text}: ${name}` }, text);
      node.addEventListener("click", () => this.#answer(a.id, answer, text));
      return node;
    };
    const node = el("li", {},
      el("h3", { class: "mono" }, name),
      el("p", { class: "words" }, `${a.client || "An agent"} in ${a.project}, session ${a.session}`),
      el("p", { class: "words quiet" }, [a.rule, a.why].filter(Boolean).join(": ")),
      el("pre", { tabindex: "0", "aria-label": `Arguments of ${name}` }, a.arguments),
      el("p", { class: "quiet expires" }),
      el("div", { class: "buttons" },
        button("Allow once", { allow: true, always: false }),
        button("Allow in this session", { allow: true, always: true }),
        button("Deny", { allow: false, always: false })),
      el("p", { class: "words", role: "status" }));
    node.dataset.id = a.id;
    return node;
  }

  async #answer(id, answer, text) {
    const node = [...this.#list.children].find((item) => item.dataset.id === id);
    const buttons = [...node.querySelectorAll("button")];
    buttons.forEach((b) => (b.disabled = true));
    try {
      const reply = await fetch(`/approvals/${encodeURIComponent(id)}`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(answer), signal: AbortSignal.timeout(10000),
      });
      if (!reply.ok && reply.status !== 404) throw new Error((await reply.text()).trim() || `the daemon answers ${reply.status}`);
      this.#settle(node, reply.ok ? `You said: ${text.toLowerCase()}.` : "This call waits no more.");
    } catch (error) {
      say(node.querySelector("[role=status]"), `That did not work: ${error.message}`);
      buttons.forEach((b) => (b.disabled = false));
    }
  }

  #settle(node, text) {
    const id = node.dataset.id;
    this.#settled.add(id);
    say(node.querySelector("[role=status]"), text);
    say(node.querySelector(".expires"), "");
    node.querySelector(".buttons").hidden = true;
    setTimeout(() => {
      this.#settled.delete(id);
      node.remove();
      this.#hide();
    }, tellFor);
  }
}
