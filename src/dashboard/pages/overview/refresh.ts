import { useEffect } from "preact/hooks";

/** Asks again from time to time while the page is looked at. */
export function useRefresh(reload: () => void, everyMs: number): void {
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [reload, everyMs]);
}
