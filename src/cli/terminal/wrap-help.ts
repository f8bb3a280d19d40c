/** Breaks lines that are too long at spaces; the rest of a line keeps its indentation. */
export const wrapHelp = (text: string, width: number): string =>
  text
    .split("\n")
    .flatMap((line) => (line.length <= width ? [line] : wrapLine(line, width)))
    .join("\n");

function wrapLine(line: string, width: number): readonly string[] {
  const indent = /^ */.exec(line)?.[0] ?? "";
  const lines: string[] = [];
  let current = "";
  for (const word of line.trim().split(" ")) {
    const longer = current === "" ? `${indent}${word}` : `${current} ${word}`;
    if (current !== "" && longer.length > width) {
      lines.push(current);
      current = `${indent}${word}`;
    } else current = longer;
  }
  return [...lines, current];
}
