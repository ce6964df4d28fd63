// Forms: rows of typed values are added in the page, and the form that an address names unfolds.

function addRow(button) {
  const rows = button.closest("[data-typed]").querySelector(".typed-rows");
  const all = [...rows.children];
  const parts = (row) => row.querySelectorAll("input, select");
  const empty = (each) => each.tagName === "SELECT" || each.value === "";
  const blank = all.find((row) => [...parts(row)].every(empty));
  const row = blank ?? all.at(-1).cloneNode(true);
  const [key, type, value] = parts(row);
  key.value = button.dataset.add;
  type.value = button.dataset.type;
  value.value = "";
  value.placeholder = button.dataset.hint || "value";
  if (!blank) {
    rows.append(row);
  }
  [...rows.children].forEach((each, at) => each.setAttribute("aria-label", `Row ${at + 1}`));
  (button.dataset.add ? value : key).focus();
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("button[data-add]") : null;
  if (button) {
    event.preventDefault();
    addRow(button);
  }
});

function openNamed() {
  const card = document.getElementById(location.hash.slice(1));
  if (card instanceof HTMLDetailsElement) {
    card.open = true;
    card.querySelector("input:not([type=hidden]), select")?.focus();
  }
}
addEventListener("hashchange", openNamed);
openNamed();
