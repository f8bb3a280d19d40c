import { Dialog } from "../components/dialog.tsx";
import { goKeys, isHelpOpen } from "../state/shortcuts.ts";

const keys: readonly (readonly [keys: readonly string[], name: string])[] = [
  [["/"], "Search in the list"],
  [["j"], "Next row"],
  [["k"], "Previous row"],
  [["Enter"], "Open the row"],
  [["Esc"], "Close what is open"],
  [["?"], "This help"],
];

/** The keyboard's shortcuts. */
export const Help = () => (
  <Dialog title="Keyboard shortcuts" onClose={() => (isHelpOpen.value = false)}>
    <div class="shortcuts">
      <dl>
        {keys.map(([pressed, name]) => (
          <Shortcut key={name} pressed={pressed} name={name} />
        ))}
      </dl>
      <dl>
        {Object.entries(goKeys).map(([key, [, name]]) => (
          <Shortcut key={name} pressed={["g", key]} name={name} />
        ))}
      </dl>
    </div>
  </Dialog>
);

const Shortcut = ({ pressed, name }: { readonly pressed: readonly string[]; readonly name: string }) => (
  <div>
    <dt>
      {pressed.map((key) => (
        <kbd key={key}>{key}</kbd>
      ))}
    </dt>
    <dd>{name}</dd>
  </div>
);
