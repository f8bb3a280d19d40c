interface HeaderLines {
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly problem: string | undefined;
}

/** Reads headers as people write them: `Name: value`, one a line. */
export function headersIn(text: string): HeaderLines {
  const headers: (readonly [string, string])[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const [, name, value = ""] = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined) return { headers, problem: `Line ${i + 1} must be written as Name: value.` };
    headers.push([name, value]);
  }
  return { headers, problem: undefined };
}
