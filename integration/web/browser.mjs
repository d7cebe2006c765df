// Does in a headless Chromium what the Go test says.
//
//   node browser.mjs DIR
//
// DIR holds node_modules. A request is a line of JSON, {"do", ...}, and is
// answered by one, {"error"?, "value"?}. Every wait is for something that must
// come, for a minute at most.
import { mkdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const require = createRequire(pathToFileURL(`${process.argv[2]}/`));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const patience = 60000;
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"], // Chromium refuses its own sandbox to root
});
let context, page;
let trouble = []; // what must not happen: told by the request "trouble"

const steps = {
  // open opens a page of its own, in a window of its own.
  async open({ url, scheme = "light", width = 1400, height = 1000, cookies = [], reduced = false }) {
    await context?.close();
    context = await browser.newContext({
      colorScheme: scheme, viewport: { width, height }, reducedMotion: reduced ? "reduce" : "no-preference", timezoneId: "UTC", locale: "en-GB",
    });
    context.setDefaultTimeout(patience);
    await context.addCookies(cookies);
    page = await context.newPage();
    const origin = new URL(url).origin;
    page.on("request", (r) => {
      const to = r.url();
      if (!to.startsWith(`${origin}/`) && !to.startsWith("data:")) trouble.push(`asked for ${to}`);
    });
    page.on("pageerror", (e) => trouble.push(`page error: ${e.stack}`));
    page.on("dialog", (d) => {
      trouble.push(`dialog: ${d.message()}`);
      d.dismiss();
    });
    page.on("console", (m) => {
      if (/content.security|trusted/i.test(m.text())) trouble.push(`console: ${m.text()}`);
    });
    const answer = await page.goto(url);
    return { status: answer.status(), headers: answer.headers() };
  },

  // until waits for a text in the first element of a selector, or for the element.
  async until({ selector, text, gone }) {
    let all = page.locator(selector);
    if (text !== undefined) all = all.filter({ hasText: text });
    await all.first().waitFor({ state: gone ? "detached" : "attached" });
  },

  texts: ({ selector }) => page.locator(selector).allTextContents(),
  count: ({ selector }) => page.locator(selector).count(),
  attribute: ({ selector, name }) => page.locator(selector).first().getAttribute(name),
  style: ({ selector, name }) => page.locator(selector).first().evaluate((node, n) => getComputedStyle(node)[n], name),
  fill: ({ selector, text }) => page.fill(selector, text),
  press: ({ key }) => page.keyboard.press(key),
  focus: ({ selector }) => page.locator(selector).first().focus(),
  cookies: () => context.cookies(),
  forget: () => context.clearCookies(),
  overflow: () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),

  // walk presses Tab through the page, and returns what had the focus, and what
  // of that could not be seen to have it. missed is what may be used and was not
  // reached.
  async walk() {
    await page.evaluate(() => {
      document.activeElement?.blur();
      document.body.focus();
      for (const node of document.querySelectorAll("[data-walked]")) delete node.dataset.walked;
    });
    const reached = [], unseen = [];
    for (let n = 0; n < 100; n++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const node = document.activeElement;
        if (!node || node === document.body || node === document.documentElement) return null;
        const again = node.dataset.walked !== undefined;
        node.dataset.walked = "";
        const style = getComputedStyle(node);
        const box = node.getBoundingClientRect();
        return {
          again, name: node.getAttribute("aria-label") ?? node.textContent.trim().slice(0, 60),
          seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.bottom > 0 && box.top < innerHeight,
        };
      });
      if (!at || at.again) break;
      reached.push(at.name);
      if (!at.seen) unseen.push(at.name);
    }
    const missed = await page.evaluate(() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
      .filter((node) => node.dataset.walked === undefined && !node.disabled && node.checkVisibility())
      .map((node) => node.outerHTML.slice(0, 200)));
    return { reached, unseen, missed };
  },

  // barriers returns what axe finds. It is put in by the debugger, which the
  // page's policy for content does not bind.
  async barriers() {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    return violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.html.slice(0, 150)).slice(0, 3).join(" | ")}`);
  },

  async picture({ file }) {
    mkdirSync(path.dirname(file), { recursive: true });
    await page.screenshot({ path: file, fullPage: true });
  },

  trouble() {
    const was = trouble;
    trouble = [];
    return was;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const answer = {};
  try {
    answer.value = await steps[request.do](request);
  } catch (e) {
    answer.error = `${e.stack}\nThe page: ${await page?.locator("body").innerText({ timeout: 5000 }).catch(String)}`;
  }
  console.log(JSON.stringify(answer));
}
await browser.close();
