/** One input of a page's HTML. */
export interface ShownInput {
  readonly value: string | undefined;
  readonly isInvalid: boolean;
  readonly hasFocus: boolean;
  /** The texts that describe it, the empty ones left out. */
  readonly descriptions: readonly string[];
}

export function inputIn(page: string, name: string): ShownInput {
  const tags = [...page.matchAll(/<input [^>]*>/g)].map(([tag]) => tag);
  const tag = tags.find((one) => attributeIn(one, "name") === name);
  if (tag === undefined) throw new Error(`the page has no input ${name}: ${page}`);
  const ids = (attributeIn(tag, "aria-describedby") ?? "").split(" ");
  const texts = ids.map((id) => {
    const text = new RegExp(`<p [^>]*id="${id}"[^>]*>([^<]*)</p>`).exec(page)?.[1];
    if (text === undefined) throw new Error(`nothing has the id ${id}`);
    return decoded(text);
  });
  return {
    value: attributeIn(tag, "value"),
    isInvalid: attributeIn(tag, "aria-invalid") === "true",
    hasFocus: / autofocus[ >]/.test(tag),
    descriptions: texts.filter((text) => text !== ""),
  };
}

/** The form of a page as a browser sends it, with some values replaced. */
export function sentForm(page: string, values: Readonly<Record<string, string>>): URLSearchParams {
  const inputs = [...page.matchAll(/<input [^>]*>/g)].map(([tag]) => tag);
  return new URLSearchParams({
    ...Object.fromEntries(inputs.map((tag) => [attributeIn(tag, "name") ?? "", attributeIn(tag, "value") ?? ""])),
    ...values,
  });
}

export const visibleText = (page: string): string =>
  decoded(
    page
      .replace(/<style>.*?<\/style>|<script>.*?<\/script>/gs, "")
      .replace(/<[^>]+>/g, " ")
      .replace(/\s+/g, " "),
  );

function attributeIn(tag: string, name: string): string | undefined {
  const found = new RegExp(` ${name.replace(/[[\]]/g, "\\$&")}="([^"]*)"`).exec(tag)?.[1];
  return found === undefined ? undefined : decoded(found);
}

const decoded = (text: string): string =>
  text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");
