import type { WatchState } from "../data/watch.ts";
import { Icon } from "./icon.tsx";

const texts: Readonly<Record<WatchState, string>> = {
  connecting: "Connecting",
  live: "Live",
  broken: "Reconnecting",
};

/** Says whether the list follows changes, and pauses it. */
export const LiveSwitch = ({
  state,
  isOn,
  onChange,
}: {
  readonly state: WatchState;
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
}) => (
  <button
    type="button"
    class={`live-switch ${isOn ? state : "paused"}`}
    aria-pressed={isOn}
    onClick={() => onChange(!isOn)}
  >
    <Icon name={isOn ? "pause" : "play"} />
    {isOn ? texts[state] : "Paused"}
  </button>
);
