/**
 * How many deliveries may be begun in a lap. Receiving comes first: what waits is safe, and a provider that is kept
 * waiting gives up. While laps of the event loop are long there are fewer, and soon as many again. How many are under
 * way is another matter: waiting for an answer is no work.
 */
export interface DeliveryPace {
  readonly most: number;
  /** Told of one lap of 20 ms after another, by how much it was late. */
  lap(lateMs: number): void;
}

export const fewest = 8;
export const mostEver = 1_024;
/** Longer than the work that a few deliveries bring into one lap. */
const longMs = 10;
const step = 8;

export function createDeliveryPace(): DeliveryPace {
  let most = mostEver;
  return {
    get most() {
      return most;
    },
    lap(lateMs) {
      most = lateMs > longMs ? Math.max(fewest, Math.floor(most * 0.7)) : Math.min(mostEver, most + step);
    },
  };
}
