interface MethodRequest {
  readonly method: string;
  readonly path: string;
  readonly rawHeaders: readonly string[];
}

/** Fields and parameters by which a client asks a server to take a request for one of another method. */
const overrideField = /^(?:x-http-method-override|x-http-method|x-method-override)$/i;
const overrideParameter = /^(?:_method|\$httpmethod|x-http-method-override)$/i;
/** Lengths of the names of these fields: most other fields are told apart by theirs. */
const overrideLengths: ReadonlySet<number> = new Set([13, 17, 22]);

/** Returns whether a request asks its server to take it for one of another method than its own. */
export function asksForOtherMethod({ method, path, rawHeaders }: MethodRequest): boolean {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    // Some servers take an underscore for a dash.
    if (!overrideLengths.has(name.length) || !overrideField.test(name.replaceAll("_", "-"))) continue;
    if ((rawHeaders[i + 1] ?? "").trim().toUpperCase() !== method) return true;
  }
  const at = path.indexOf("?");
  if (at === -1 || !/method|%/i.test(path.slice(at))) return false;
  for (const [name, value] of new URLSearchParams(path.slice(at))) {
    if (overrideParameter.test(name) && value.toUpperCase() !== method) return true;
  }
  return false;
}
