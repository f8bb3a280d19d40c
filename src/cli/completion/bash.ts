import { type CompletedCommand, namedFlags, namesCommand, valuedFlags } from "./command-tree.ts";

/** Returns the bash completion: subcommands and fixed values, options after a dash, otherwise files. */
export function bashCompletion(commands: readonly CompletedCommand[]): string {
  const name = ({ path }: CompletedCommand) => quote(path.join(" "));
  const below = commands.filter(({ path }) => path.length > 0);
  const cases = commands.map((command) => {
    const options = command.options.flatMap(({ flags }) => flags);
    const names = command.names === undefined ? "" : ` names=${command.names}`;
    return `    ${name(command)}) next=${quote(command.next.join(" "))} options=${quote(options.join(" "))}${names} ;;`;
  });
  const choices = commands
    .flatMap(({ options }) => options)
    .filter((option) => option.choices.length > 0)
    .map(({ flags, choices: values }) => `    ${flags.join("|")}) ${offer(quote(values.join(" ")))}; return ;;`);
  const named = [...namedFlags(commands)].flatMap(([kind, flags]) =>
    flags.length === 0 ? [] : [`    ${flags.join("|")}) _latchkey_names ${kind}; return ;;`],
  );
  const everywhere = commands[0]?.options.flatMap(({ flags }) => flags) ?? [];
  return `# bash completion of latchkey; load it with: source <(latchkey completion bash)
# Names that the running Latchkey knows, with the options that say where it is.
_latchkey_names() {
  local at scope=()
  for ((at = 1; at < COMP_CWORD - 1; at++)); do
    case \${COMP_WORDS[at]} in
      -e|--environment|--address|--key-file) scope+=("\${COMP_WORDS[at]}" "\${COMP_WORDS[at+1]}") ;;
    esac
  done
  ${offer(`"$(latchkey "\${scope[@]}" --timeout 2s ${namesCommand} "$1" 2>/dev/null)"`)}
}
_latchkey() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local path="" next="" options="" names="" at skip=""
  COMPREPLY=()
  case $previous in
${[...new Set([...choices, ...named])].join("\n")}
    ${valuedFlags(commands).join("|")}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  for ((at = 1; at < COMP_CWORD; at++)); do
    if [[ -n $skip ]]; then skip=""; continue; fi
    case \${COMP_WORDS[at]} in
      ${valuedFlags(commands).join("|")}) skip=yes; continue ;;
      -*) continue ;;
    esac
    case "\${path:+$path }\${COMP_WORDS[at]}" in
      ${below.map(name).join("|")}) path="\${path:+$path }\${COMP_WORDS[at]}" ;;
    esac
  done
  case $path in
${cases.join("\n")}
  esac
  if [[ $current == -* ]]; then
    ${offer(`"$options ${everywhere.join(" ")} --help"`)}
  elif [[ -n $next ]]; then
    ${offer('"$next"')}
  elif [[ -n $names ]]; then
    _latchkey_names "$names"
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _latchkey latchkey
`;
}

const offer = (words: string) => `COMPREPLY=($(compgen -W ${words} -- "$current"))`;
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
