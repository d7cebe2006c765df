// Elements, and numbers in words.

// el makes an element. Children are elements or texts, and texts stay texts:
// what agents and servers call themselves is no markup.
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const namespace = "http://www.w3.org/2000/svg";

// svg makes an element of a drawing.
export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

// say sets a text unless it is that already, so that a screen reader hears
// changes alone.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// mark sets what colours a state.
export function mark(node, state) {
  if (state) node.dataset.state = state;
  else delete node.dataset.state;
}

// sync makes parent hold one child for each item, in their order. A child stays
// the same element as long as its key does: a button that has the focus keeps it.
// What key returns must be different for each item. Children that the page's text
// has stay in front.
export function sync(parent, items, key, make, fill) {
  const keys = new Set(items.map(key));
  const old = new Map();
  for (const node of [...parent.children]) {
    if (node.dataset.key === undefined) continue;
    if (keys.has(node.dataset.key)) old.set(node.dataset.key, node);
    else node.remove();
  }
  let before = old.values().next().value ?? null;
  for (const item of items) {
    let node = old.get(key(item));
    if (!node) {
      node = make(item);
      node.dataset.key = key(item);
    }
    fill(node, item);
    if (node === before) before = before.nextElementSibling;
    else parent.insertBefore(node, before);
  }
}

// duration tells milliseconds.
export function duration(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
  if (ms < 60e3) return `${(ms / 1000).toFixed(ms < 10e3 ? 1 : 0)} s`;
  if (ms < 3600e3) return `${Math.floor(ms / 60e3)} min ${Math.floor((ms % 60e3) / 1000)} s`;
  if (ms < 86400e3) return `${Math.floor(ms / 3600e3)} h ${Math.floor((ms % 3600e3) / 60e3)} min`;
  return `${Math.floor(ms / 86400e3)} d ${Math.floor((ms % 86400e3) / 3600e3)} h`;
}

// age is a duration in whole seconds.
export const age = (ms) => (ms < 1000 ? "0 s" : duration(Math.floor(ms / 1000) * 1000).replace(".0 s", " s"));

export function bytes(n) {
  if (!(n >= 0)) return "";
  if (n < 1 << 20) return `${Math.ceil(n / 1024)} KiB`;
  if (n < 1 << 30) return `${Math.round(n / (1 << 20))} MiB`;
  return `${(n / (1 << 30)).toFixed(1)} GiB`;
}

export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

const clockFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export const clock = (ms) => clockFormat.format(ms);
