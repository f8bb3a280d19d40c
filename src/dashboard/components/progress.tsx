import { countText } from "../data/format.ts";

/** How far work over many objects has come. */
export const Progress = ({
  done,
  all,
  label,
}: {
  readonly done: number;
  readonly all: number;
  readonly label: string;
}) => (
  <div class="progress">
    <progress value={done} max={Math.max(all, 1)} aria-label={label} />
    <span>
      {countText(done)} of {countText(all)}
    </span>
  </div>
);
