'use strict';
(() => {
const root = document.documentElement, theme = document.getElementById('theme'), state = document.getElementById('state');
const isDark = () => root.dataset.theme === 'dark' || (root.dataset.theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
theme.hidden = false;
theme.onclick = () => { root.dataset.theme = isDark() ? 'light' : 'dark'; };
let known;
// The newest form of the page takes the place of the old one: what its reader has opened stays open, and the focus is
// where it was.
const name = e => (e.closest('article')?.querySelector('h3').textContent.replace(/^\d+/, '') || '') + (e.getAttribute('aria-label') || e.textContent).replace(/\d+/g, '');
const put = (from, to) => {
  const open = new Set([...to.querySelectorAll('details[open] > summary')].map(name));
  const focus = to.contains(document.activeElement) && name(document.activeElement);
  to.replaceChildren(...document.importNode(from, true).childNodes);
  for (const s of to.querySelectorAll('summary')) s.parentElement.open = open.has(name(s));
  if (focus) [...to.querySelectorAll('summary, a, [tabindex]')].find(e => name(e) === focus)?.focus({preventScroll: true});
};
const look = async () => {
  try {
    const version = await fetch('version').then(r => r.ok ? r.text() : Promise.reject(r.status));
    state.textContent = '';
    if (version !== known) {
      const text = await fetch('./').then(r => r.ok ? r.text() : Promise.reject(r.status));
      known = version;
      const next = new DOMParser().parseFromString(text, 'text/html');
      document.title = next.title;
      for (const id of ['progress', 'kinds', 'findings']) put(next.getElementById(id), document.getElementById(id));
    }
  } catch {
    state.textContent = 'opsim report does not answer any more: this is what it said last.';
  }
  setTimeout(look, 1000); // and not while this one waits for its answer
};
setTimeout(look, 1000);
})();
