// The contrast of each number of the confusion matrices with its cell, which axe-core does not see.
[...document.querySelectorAll('[data-figure$=-clean], [data-figure$=-attacked]')]
  .filter((chart) => chart.querySelector('.mark-rect')).flatMap((chart) => {
    const channels = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);
    const card = channels(getComputedStyle(chart.closest('figure')).backgroundColor);
    const light = (colour) => colour.map((one) => one / 255).map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
      .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
    const cells = [...chart.querySelectorAll('.mark-rect path')].map((cell) => [cell.getBoundingClientRect(), getComputedStyle(cell)]);
    return [...chart.querySelectorAll('.mark-text.role-mark text')].map((text) => {
      const box = text.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
      const [, style] = cells.find(([cell]) => cell.left <= x && x <= cell.right && cell.top <= y && y <= cell.bottom);
      const share = Number(style.opacity), over = channels(style.fill);
      const below = light(over.map((one, place) => share * one + (1 - share) * card[place]));
      const ink = light(channels(getComputedStyle(text).fill));
      return (Math.max(ink, below) + 0.05) / (Math.min(ink, below) + 0.05);
    });
  })
