// Marks tables and code that are wider than the page, so that site.css says so.
function mark() {
  for (const element of document.querySelectorAll(
    '.md-typeset__scrollwrap, .md-typeset pre > code',
  )) {
    const marked = element.tagName === 'CODE' ? element.parentNode : element;
    const scrolls = element.scrollWidth > element.clientWidth;
    marked.classList.toggle('scrolls', scrolls);
  }
}
addEventListener('load', mark);
addEventListener('resize', mark);
