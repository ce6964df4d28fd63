// Live pages: fetches the page again every few seconds and swaps the parts that are marked
// `data-live`. Without it pages show what was when they were loaded. Where the node does not answer
// any more a bar says so, whatever the page and however seldom it is refreshed.

const CHOICES = [[5, "Every 5 s"], [15, "Every 15 s"], [60, "Every minute"], [0, "Not"]];
const KEY = "warren-refresh-seconds";
const LOOK_MS = 5000;
const ANSWER_MS = 10000;
const place = document.getElementById("refresh");
const bar = document.getElementById("gone");
const told = document.getElementById("gone-text");
const parts = () => [...document.querySelectorAll("[data-live][id]")];
let seconds = 5;
let fresh = new Date();
let leaving = false;
let timer = 0;

function remembered() {
  try {
    const value = localStorage.getItem(KEY);
    return value === null ? 5 : Number(value);
  } catch {
    return 5;
  }
}

function remember(value) {
  try {
    localStorage.setItem(KEY, String(value));
  } catch {
    // The choice then counts for this page alone.
  }
}

// What is in the middle of being used stays as it is: an open question, selected text.
function busy(part) {
  const selection = getSelection();
  return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
}

function addressOf(element) {
  return element.getAttribute("href") ?? element.getAttribute("aria-label") ?? element.textContent;
}

function swap(part, fresh) {
  if (!fresh || part.innerHTML === fresh.innerHTML || busy(part)) {
    return;
  }
  const active = document.activeElement;
  const focused = part.contains(active) && active !== part ? active : null;
  const scrolled = [...part.querySelectorAll(".table-wrap")].map((each) => each.scrollLeft);
  part.replaceChildren(...fresh.childNodes);
  part.querySelectorAll(".table-wrap").forEach((each, at) => {
    each.scrollLeft = scrolled[at] ?? 0;
  });
  if (focused) {
    const alike = [...part.querySelectorAll(focused.tagName)];
    const same = alike.find((each) => addressOf(each) === addressOf(focused));
    same?.focus({ preventScroll: true });
  }
}

// The bar across the page, and grey figures: what is shown is not what is.
function tellOld(text) {
  const words = `${text} The figures of this page are from ${fresh.toLocaleTimeString()}.`;
  if (bar.hidden || told.textContent !== words) {
    told.textContent = words;
  }
  bar.hidden = false;
  document.body.dataset.old = "";
}

function tellFresh() {
  fresh = new Date();
  bar.hidden = true;
  told.textContent = "";
  delete document.body.dataset.old;
}

function tellGone() {
  tellOld(`The node ${document.body.dataset.node} does not answer.`);
}

async function ask(address, method) {
  const signal = AbortSignal.timeout(ANSWER_MS);
  const answer = await fetch(address, { method, signal, cache: "no-store", redirect: "manual" });
  return [answer, answer.type === "opaqueredirect" ? "" : await answer.text()];
}

async function refresh() {
  const [answer, text] = await ask(location.href, "GET");
  if (answer.type === "opaqueredirect") {
    location.reload();
  } else if (answer.ok || !document.querySelector("main [data-live]")) {
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const part of parts()) {
      swap(part, page.getElementById(part.id));
    }
    tellFresh();
  } else if (answer.status === 404) {
    tellOld("What this page shows is gone.");
  } else {
    tellOld(`The node cannot show this page now (${answer.status}).`);
  }
}

// Every few seconds: the page again if it is time, else only whether the node is there.
async function look() {
  if (document.hidden) {
    return;
  }
  leaving = false;
  const due = seconds > 0 && Date.now() - fresh >= seconds * 1000 - LOOK_MS / 2;
  try {
    if (due || !bar.hidden) {
      await refresh();
    } else {
      await ask(document.querySelector("link[rel=icon]").href, "HEAD");
    }
  } catch {
    // A page that is being left has its requests broken off.
    if (!leaving) {
      tellGone();
    }
  }
}

function plan() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    await look();
    plan();
  }, LOOK_MS);
}

function showChoice() {
  const label = document.createElement("label");
  const select = document.createElement("select");
  label.append("Refresh", select);
  for (const [value, words] of CHOICES) {
    select.add(new Option(words, String(value), false, value === seconds));
  }
  select.addEventListener("change", () => {
    seconds = Number(select.value);
    remember(seconds);
  });
  place.append(label);
}

if (document.querySelector("main [data-live]")) {
  seconds = remembered();
  showChoice();
} else {
  seconds = 0;
}
plan();
document.addEventListener("visibilitychange", look);
addEventListener("beforeunload", () => {
  leaving = true;
});
const current = document.querySelector(".menu [aria-current]");
current?.scrollIntoView({ block: "nearest", inline: "center" });
