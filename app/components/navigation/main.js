// Draws the list of pages by group, opens the group of the current page, and presses Streamlit's own links. On a phone,
// choosing a page or an example closes the sidebar.

const element = (name, classes, text = "") => {
  const made = document.createElement(name);
  made.className = classes;
  made.textContent = text;
  return made;
};

/** A group's name, the number of its pages while it is closed, and the line that says what it is for. */
function headOf(into, { name, line, pages }) {
  into.append(element("span", "name", name));
  if (pages.length > 1) {
    const count = element("span", "count", String(pages.length));
    count.append(element("span", "said", " pages"));
    into.append(count);
  }
  into.append(element("span", "line", line));
  return into;
}

function linkTo(path, classes, title = "") {
  const link = element("a", classes, title);
  link.dataset.path = path;
  return link;
}

function groupOf(group) {
  if (group.pages.length === 1) return headOf(linkTo(group.pages[0][0], "alone"), group);
  const made = element("details", "");
  const list = element("ul", "");
  for (const [path, title] of group.pages) {
    const item = element("li", "");
    item.append(linkTo(path, "page", title));
    list.append(item);
  }
  made.append(headOf(element("summary", ""), group), list);
  return made;
}

const lastPart = (address) => new URL(address, window.location.href).pathname.split("/").pop();

const NARROW = "(max-width: 768px)"; // below this width Streamlit's sidebar covers the page

function makeRoom() {
  if (!window.matchMedia(NARROW).matches) return;
  const button = document.querySelector("[data-testid=stSidebar][data-collapsed=false] [data-testid=stSidebarCollapseButton] button");
  /** @type {HTMLElement | null} */ (button)?.click();
}

const onExample = (event) => event.target.closest?.("[class*=st-key-example_] button") && makeRoom();

/* Other clicks open the link in a new tab or window. */
function press(event) {
  const link = event.target.closest("a");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const own = [.../** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("[data-testid=stSidebarNavLink]"))];
  const same = own.find(({ href }) => lastPart(href) === link.dataset.path);
  if (!same) return;
  event.preventDefault();
  same.click();
  window.requestAnimationFrame(makeRoom); // on some phones Streamlit closes it itself
}

export default function render({ data: { groups, here }, parentElement }) {
  const root = parentElement.querySelector(".navigation");
  if (!root.childElementCount) {
    root.append(...groups.map(groupOf));
    root.addEventListener("click", press);
    document.addEventListener("click", onExample);
  }
  const folder = window.location.pathname.replace(/[^/]*$/, "");
  for (const link of root.querySelectorAll("a")) {
    link.href = `${folder}${link.dataset.path}`;
    if (link.dataset.path === here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (root.dataset.here !== here) {
    root.dataset.here = here; // until the page changes, the visitor may open other groups
    for (const group of root.querySelectorAll("details")) group.open = group.querySelector("[aria-current]") !== null;
  }
  return () => document.removeEventListener("click", onExample);
}
