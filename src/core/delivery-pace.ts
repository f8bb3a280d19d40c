/**
 * How many deliveries may be begun in a lap. Receiving comes first: what waits is safe, and a provider that is kept
 * waiting gives up. While laps of the event loop are long there are fewer, and soon as many again. How many are under
 * way is another matter: waiting for an answer is no work.
 */
export interface DeliveryPace {
  readonly most: number;
  /** Told of one lap of 20 ms after another: by how much it was late, and how many were begun in it. */
  lap(lateMs: number, begun: number): void;
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
    lap(lateMs, begun) {
      // Of what was begun, and not of what might have been: that is a hundred times as much, and ten laps away from
      // making a difference.
      if (lateMs > longMs) most = Math.max(fewest, Math.floor(Math.min(most, begun) * 0.7));
      else most = Math.min(mostEver, most + step);
    },
  };
}
