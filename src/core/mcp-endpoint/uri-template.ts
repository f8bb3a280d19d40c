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

/** Returns the values of the variables if a URI fits a template; undefined: it does not. A value has no `/`. */
export function matchTemplate(template: string, uri: string): Readonly<Record<string, string>> | undefined {
  const names = variablesOf(template);
  const parts = template.split(variable).filter((_, i) => i % 2 === 0);
  // A value ends before the text that follows, which may have none of its characters at the beginning of a value.
  const found = new RegExp(`^${parts.map(RegExp.escape).join("([^/?#]+?)")}$`).exec(uri);
  if (found === null) return undefined;
  try {
    return Object.fromEntries(names.map((name, i) => [name, decodeURIComponent(found[i + 1] ?? "")]));
  } catch {
    // Malformed percent-encoding names nothing.
    return undefined;
  }
}
