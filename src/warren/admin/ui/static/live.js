// Live pages: fetches the page again every few seconds and swaps the parts that are marked
// `data-live`. Without it pages show what was when they were loaded.

const CHOICES = [[5, "Every 5 s"], [15, "Every 15 s"], [60, "Every minute"], [0, "Not"]];
const KEY = "warren-refresh-seconds";
const place = document.getElementById("refresh");
const parts = () => [...document.querySelectorAll("[data-live][id]")];
let seconds = 5;
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

async function refresh() {
  if (document.hidden || parts().length === 0) {
    return;
  }
  try {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "manual" });
    if (answer.type === "opaqueredirect") {
      location.reload();
      return;
    }
    if (!answer.ok) {
      return;
    }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts()) {
      swap(part, fresh.getElementById(part.id));
    }
    place.dataset.state = "fresh";
    place.title = "";
  } catch {
    place.dataset.state = "lost";
    place.title = "The node does not answer; the figures are old.";
  }
}

function plan() {
  clearTimeout(timer);
  if (seconds > 0) {
    timer = setTimeout(async () => {
      await refresh();
      plan();
    }, seconds * 1000);
  }
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
    plan();
  });
  place.append(label);
}

if (place && parts().length > 0) {
  seconds = remembered();
  showChoice();
  plan();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && seconds > 0) {
      refresh();
    }
  });
}
const current = document.querySelector(".menu [aria-current]");
current?.scrollIntoView({ block: "nearest", inline: "center" });
