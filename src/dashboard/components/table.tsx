import type { ComponentChildren } from "preact";
import type { Pager } from "../data/pager.ts";
import { Button } from "./button.tsx";
import { FaultNotice, Skeleton } from "./states.tsx";

export interface TableColumn<T> {
  readonly name: string;
  readonly show: (row: T) => ComponentChildren;
  /** Numbers are aligned to the end. */
  readonly isNumber?: boolean;
  /** Left out on a narrow screen. */
  readonly isMinor?: boolean;
  readonly width?: string;
}

interface TableProps<T> {
  readonly label: string;
  readonly columns: readonly TableColumn<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  /** The page of a row. The first column becomes the link; the whole row can be clicked. */
  readonly linkOf?: (row: T) => string;
}

/** Rows of one kind. Each row is one link, reached by Tab or j and k. */
export const Table = <T,>({ label, columns, rows, keyOf, linkOf }: TableProps<T>) => (
  <div class="table-box">
    <table aria-label={label}>
      <thead>
        <tr>
          {columns.map(({ name, isNumber, isMinor }) => (
            <th key={name} scope="col" class={cellClass(isNumber, isMinor)}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)} class={linkOf === undefined ? undefined : "linked"}>
            {columns.map(({ name, show, isNumber, isMinor }, i) => (
              <td key={name} class={cellClass(isNumber, isMinor)}>
                {i === 0 && linkOf !== undefined ? (
                  <a class="row-link" data-row-link href={linkOf(row)}>
                    {show(row)}
                  </a>
                ) : (
                  show(row)
                )}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

const cellClass = (isNumber?: boolean, isMinor?: boolean) =>
  [isNumber && "number", isMinor && "minor"].filter(Boolean).join(" ") || undefined;

interface PagedTableProps<T> extends Omit<TableProps<T>, "rows"> {
  readonly pager: Pager<T>;
  /** Shown when there is no row. */
  readonly empty: ComponentChildren;
}

/** A table that reads its rows page by page. */
export function PagedTable<T>({ pager, empty, ...table }: PagedTableProps<T>) {
  const { items, fault, isLoading, hasMore } = pager;
  if (items === undefined)
    return fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={pager.reload} />;
  return (
    <>
      {fault !== undefined && <FaultNotice fault={fault} retry={pager.reload} />}
      {items.length === 0 && !hasMore ? empty : <Table {...table} rows={items} />}
      {hasMore && (
        <p class="table-foot">
          <Button onClick={pager.more} isBusy={isLoading}>
            Show more
          </Button>
        </p>
      )}
    </>
  );
}
