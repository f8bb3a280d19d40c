import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { RowWindow } from "../data/row-window.ts";
import type { TableColumn } from "./table.tsx";

interface RowTableProps<T> {
  readonly label: string;
  readonly columns: readonly TableColumn<T>[];
  readonly rows: RowWindow<T>;
  readonly keyOf: (row: T) => string;
  readonly linkOf: (row: T) => string;
  /** What a row is about, in its class. */
  readonly classOf?: (row: T) => string | undefined;
  /** In front of each row, such as a checkbox; without a row in the head. */
  readonly mark?: (row: T | undefined) => ComponentChildren;
  /** Number of rows in all, if it is known. */
  readonly total?: number | undefined;
}

/** Height of a row, as in the style sheet. */
const rowHeight = 41;
/** Rows drawn above and below the screen. */
const spare = 15;

/** A table of any length: only the rows near the screen are drawn, and only their pages are in memory. */
export function RowTable<T>(props: RowTableProps<T>) {
  const { label, columns, rows, total, mark } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const range = useSignal<readonly [from: number, to: number]>([0, 60]);
  const count = rows.count ?? 0;

  useEffect(() => {
    let frame = 0;
    function measure(): void {
      frame = 0;
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / rowHeight));
      const drawn = Math.ceil(window.innerHeight / rowHeight);
      const [from, to] = [Math.max(0, first - spare), first + drawn + spare];
      const [shownFrom, shownTo] = range.peek();
      if (from !== shownFrom || to !== shownTo) range.value = [from, to];
    }
    const onMove = () => {
      if (frame === 0) frame = requestAnimationFrame(measure);
    };
    measure();
    window.addEventListener("scroll", onMove, { passive: true });
    window.addEventListener("resize", onMove);
    return () => {
      cancelAnimationFrame(frame);
      window.removeEventListener("scroll", onMove);
      window.removeEventListener("resize", onMove);
    };
  }, []);

  const [from, wanted] = range.value;
  const to = Math.min(wanted, count);
  useEffect(() => rows.show(from, wanted), [from, wanted, count]);
  const first = Math.min(from, to);

  return (
    <div class="table-box row-table">
      <table aria-label={label} aria-rowcount={(total ?? (rows.isEnd ? count : -1)) + 1}>
        <thead>
          <tr>
            {mark !== undefined && (
              <th scope="col" class="mark">
                {mark(undefined)}
              </th>
            )}
            {columns.map(({ name, isNumber, isMinor }) => (
              <th key={name} scope="col" class={`col-${slugOf(name)} ${cellClass(isNumber, isMinor) ?? ""}`}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          <Spacer key="above" rows={first} />
          {Array.from({ length: Math.max(0, to - first) }, (_, i) => (
            <Row key={first + i} {...props} row={rows.at(first + i)} index={first + i} />
          ))}
          <Spacer key="below" rows={count - to} />
        </tbody>
      </table>
    </div>
  );
}

/** Holds the place of rows that are not drawn. The height is set by script: the page allows no style attributes. */
const Spacer = ({ rows }: { readonly rows: number }) => (
  <tr
    class="spacer"
    ref={(element) => {
      if (element !== null) element.style.height = `${Math.max(0, rows) * rowHeight}px`;
    }}
  />
);

interface RowProps<T> extends RowTableProps<T> {
  readonly row: T | undefined;
  readonly index: number;
}

function Row<T>({ columns, row, index, linkOf, classOf, mark }: RowProps<T>) {
  if (row === undefined) {
    return (
      <tr class="pending" aria-rowindex={index + 2}>
        <td colSpan={columns.length + 1}>
          <span />
        </td>
      </tr>
    );
  }
  return (
    <tr class={`linked ${classOf?.(row) ?? ""}`} aria-rowindex={index + 2}>
      {mark !== undefined && <td class="mark">{mark(row)}</td>}
      {columns.map(({ name, show, isNumber, isMinor }, i) => (
        <td key={name} class={cellClass(isNumber, isMinor)}>
          {i === 0 ? (
            <a class="row-link" data-row-link href={linkOf(row)}>
              {show(row)}
            </a>
          ) : (
            show(row)
          )}
        </td>
      ))}
    </tr>
  );
}

/** The name of a column in its class, by which a style sheet gives it a width. */
const slugOf = (name: string) => name.toLowerCase().replaceAll(" ", "-");

const cellClass = (isNumber?: boolean, isMinor?: boolean) =>
  [isNumber && "number", isMinor && "minor"].filter(Boolean).join(" ") || undefined;
