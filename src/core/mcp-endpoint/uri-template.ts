/** Scheme of the resources that Latchkey itself has. */
export const ownScheme = "latchkey:";

const maxLength = 500;
const variable = /\{([^{}]*)\}/g;
const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,49}$/;

/** Says what is wrong with the template of a URI; undefined: nothing. Templates have variables alone: `files://{id}`. */
export function mistakeInTemplate(template: string): string | undefined {
  if (template.length > maxLength) return `must have at most ${maxLength} characters`;
  if (!/^[a-z][a-z0-9+.-]*:[\x21-\x7e]+$/i.test(template)) return "must be a URI with its scheme, such as files://{id}";
  if (template.toLowerCase().startsWith(ownScheme)) return `must not have the scheme ${ownScheme}, which is Latchkey's`;
  const names = variablesOf(template);
  if (/[{}]/.test(template.replaceAll(variable, ""))) return "has a brace without its partner";
  const wrong = names.find((name) => !variableName.test(name));
  if (wrong !== undefined) return `has the variable {${wrong}}: names have letters, digits and _`;
  if (new Set(names).size < names.length) return "has a variable twice";
  return /\}\{/.test(template) ? "has two variables without text between them" : undefined;
}

/** Returns the names of the variables of a template, in their order. */
export const variablesOf = (template: string): string[] =>
  [...template.matchAll(variable)].map(([, name = ""]) => name);

/** Longer URIs fit no template. */
const maxUriLength = 8_192;
const isOutsideValue = /[/?#]/;

/** Returns the values of the variables if a URI fits a template; undefined: it does not. A value has no `/`. */
export function matchTemplate(template: string, uri: string): Readonly<Record<string, string>> | undefined {
  if (uri.length > maxUriLength) return undefined;
  const names = variablesOf(template);
  const found = valuesIn(template.split(variable), uri);
  if (found === undefined) return undefined;
  try {
    return Object.fromEntries(names.map((name, i) => [name, decodeURIComponent(found[i] ?? "")]));
  } catch {
    // Malformed percent-encoding names nothing.
    return undefined;
  }
}

/**
 * `parts`: text, variable, text, variable, text. A value ends where the text after it is first found, the last one where
 * the URI ends. A regular expression would try all ways to divide a URI, which takes minutes for one with many dashes.
 */
function valuesIn(parts: readonly string[], uri: string): readonly string[] | undefined {
  const last = parts.length - 1;
  const [first = ""] = parts;
  if (last === 0) return uri === first ? [] : undefined;
  if (!uri.startsWith(first)) return undefined;
  const values: string[] = [];
  let from = first.length;
  for (let i = 2; i <= last; i += 2) {
    const text = parts[i] ?? "";
    const to = i === last ? uri.length - text.length : uri.indexOf(text, from + 1);
    if (to <= from || (i === last && !uri.endsWith(text))) return undefined;
    const value = uri.slice(from, to);
    if (isOutsideValue.test(value)) return undefined;
    values.push(value);
    from = to + text.length;
  }
  return values;
}
