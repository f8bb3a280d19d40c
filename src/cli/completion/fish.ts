import {
  type CompletedCommand,
  type CompletedOption,
  type NameKind,
  namesCommand,
  valuedFlags,
} from "./command-tree.ts";

/** Returns the fish completion: as for bash, with a description of each word. */
export function fishCompletion(commands: readonly CompletedCommand[]): string {
  const summaries = new Map(commands.map(({ path, summary }) => [path.join(" "), summary]));
  const lines = commands.flatMap(({ path, next, names, options }) => {
    const where = (verb: string) => ["-n", quote([verb, ...path].join(" "))];
    // No files where the next words are known.
    const words = next.map((word) => {
      const meaning = summaries.get([...path, word].join(" ")) ?? "";
      return [...where("__latchkey_at"), "-f", "-a", quote(word), "-d", quote(meaning)];
    });
    // The program's own options may be anywhere.
    const flags = options.map((option) => [...(path.length === 0 ? [] : where("__latchkey_below")), ...flag(option)]);
    const known = names === undefined ? [] : [[...where("__latchkey_at"), "-f", "-a", listed(names)]];
    return [...words, ...known, ...flags].map((parts) => ["complete -c latchkey", ...parts].join(" "));
  });
  return `# fish completion of latchkey; load it with: latchkey completion fish | source
function __latchkey_words
  set -l words (commandline -opc)
  set -l skip no
  for word in $words[2..-1]
    if test $skip = yes
      set skip no
      continue
    end
    switch $word
      case ${valuedFlags(commands).join(" ")}
        set skip yes
      case '-*'
      case '*'
        echo $word
    end
  end
end
function __latchkey_at
  set -l words (__latchkey_words)
  test "$words" = "$argv"
end
function __latchkey_below
  set -l words (__latchkey_words)
  set -l depth (count $argv)
  test (count $words) -ge $depth; and test "$words[1..$depth]" = "$argv"
end
${lines.join("\n")}
`;
}

/** Returns a call of the command that lists the names of a kind. */
const listed = (kind: NameKind) => quote(`(latchkey --timeout 2s ${namesCommand} ${kind} 2>/dev/null)`);

const flag = ({ flags, summary, takesValue, choices, names }: CompletedOption): string[] => [
  ...flags.flatMap((name) => (name.startsWith("--") ? ["-l", name.slice(2)] : ["-s", name.slice(1)])),
  ...(takesValue ? ["-r"] : []),
  ...(choices.length === 0 ? [] : ["-f", "-a", quote(choices.join(" "))]),
  ...(names === undefined ? [] : ["-f", "-a", listed(names)]),
  "-d",
  quote(summary),
];

const quote = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
