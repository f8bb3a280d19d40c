import { type CompletedCommand, namedFlags, namesCommand, valuedFlags } from "./command-tree.ts";

/** Returns the zsh completion: as for bash, with a description of each word. */
export function zshCompletion(commands: readonly CompletedCommand[]): string {
  const name = ({ path }: CompletedCommand) => quote(path.join(" "));
  const below = commands.filter(({ path }) => path.length > 0);
  const summaries = new Map(commands.map(({ path, summary }) => [path.join(" "), summary]));
  const everywhere = commands[0]?.options ?? [];
  const cases = commands.map((command) => {
    const { path, next, options } = command;
    const flags = (path.length === 0 ? options : [...options, ...everywhere]).flatMap((option) =>
      option.flags.map((flag) => described(flag, option.summary)),
    );
    const words = next.map((word) => described(word, summaries.get([...path, word].join(" ")) ?? ""));
    return `    ${name(command)})\n      following=(${words.join(" ")})\n      flags=(${flags.join(" ")})${command.names === undefined ? "" : ` names=${command.names}`} ;;`;
  });
  const named = [...namedFlags(commands)].flatMap(([kind, flags]) =>
    flags.length === 0 ? [] : [`    ${flags.join("|")}) _latchkey_names ${kind}; return ;;`],
  );
  const choices = commands
    .flatMap(({ options }) => options)
    .filter((option) => option.choices.length > 0)
    .map(({ flags, choices: values }) => `    ${flags.join("|")}) compadd -- ${values.join(" ")}; return ;;`);
  return `#compdef latchkey
# zsh completion of latchkey; load it with: source <(latchkey completion zsh)
# Names that the running Latchkey knows, with the options that say where it is.
_latchkey_names() {
  local at
  local -a scope
  for ((at = 2; at < CURRENT - 1; at++)); do
    case $words[at] in
      -e|--environment|--address|--key-file) scope+=($words[at] $words[at+1]) ;;
    esac
  done
  compadd -- \${(f)"$(latchkey $scope --timeout 2s ${namesCommand} $1 2>/dev/null)"}
}
_latchkey() {
  local where="" skip="" names="" at
  local -a following flags
  case $words[CURRENT-1] in
${[...new Set([...choices, ...named])].join("\n")}
    ${valuedFlags(commands).join("|")}) _files; return ;;
  esac
  for ((at = 2; at < CURRENT; at++)); do
    if [[ -n $skip ]]; then skip=""; continue; fi
    case $words[at] in
      ${valuedFlags(commands).join("|")}) skip=yes; continue ;;
      -*) continue ;;
    esac
    case "\${where:+$where }$words[at]" in
      ${below.map(name).join("|")}) where="\${where:+$where }$words[at]" ;;
    esac
  done
  case $where in
${cases.join("\n")}
  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe -o option flags
  elif (( $#following )); then
    _describe command following
  elif [[ -n $names ]]; then
    _latchkey_names $names
  else
    _files
  fi
}
compdef _latchkey latchkey
`;
}

// The first colon separates a word from its description.
const described = (word: string, summary: string) =>
  quote(word.replaceAll(":", "\\:") + (summary === "" ? "" : `:${summary}`));
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
