// Of each chart: its name, how many marks are inside its frame, its size, and the texts that it cuts.
[...document.querySelectorAll('.chart')].map((chart) => {
  const svg = chart.querySelector('svg');
  const box = svg.getBoundingClientRect();
  const marks = [...svg.querySelectorAll('.mark-group.role-frame [class*=role-mark] path')];
  const inside = marks.filter((mark) => {
    const found = mark.getBoundingClientRect();
    return found.right > box.left && found.left < box.right && found.bottom > box.top && found.top < box.bottom;
  });
  const texts = [...svg.querySelectorAll('text')]
    .filter((text) => text.textContent.trim() && getComputedStyle(text).opacity !== '0');
  const cut = texts.filter((text) => {
    const found = text.getBoundingClientRect();
    return found.left < box.left - 2 || found.right > box.right + 2 || found.bottom > box.bottom + 2;
  });
  return [chart.dataset.figure, inside.length, box.width, box.height, cut.map((text) => text.textContent)];
})
