import { type RunningBroker, startBroker } from "./brokers.ts";
import { type RunningEdge, startEdge } from "./edges.ts";
import { createPeers, type Peers } from "./peers.ts";
import { world } from "./world/world.ts";

const brokerNames = ["broker-0", "broker-1", "broker-2"];
const edgeNames = ["edge-0", "edge-1", "edge-2", "edge-3"];

/** All processes of the simulation, by the places where they run. */
export class Fleet {
  readonly peers: Peers = createPeers();
  readonly brokers = new Map<string, RunningBroker>();
  readonly edges = new Map<string, RunningEdge>();

  startBroker(name: string): void {
    this.brokers.set(name, startBroker(name, this.peers));
  }

  startEdge(name: string): void {
    this.edges.set(name, startEdge(name, brokerNames));
  }

  /** Starts what is not running. */
  startAll(): void {
    for (const name of brokerNames) if (isGone(this.brokers.get(name))) this.startBroker(name);
    for (const name of edgeNames) if (isGone(this.edges.get(name))) this.startEdge(name);
  }

  /** Brokers that answer requests. */
  ready(): RunningBroker[] {
    return [...this.brokers.values()].filter(
      ({ broker, process }) => broker !== undefined && process.state === "running",
    );
  }

  running(): (RunningBroker | RunningEdge)[] {
    return [...this.brokers.values(), ...this.edges.values()].filter(({ process }) => process.state !== "dead");
  }

  /** Ends all faults. */
  heal(): void {
    for (const link of world.links.values()) {
      link.set("up");
      link.delayMs = 1;
      link.beforeCommit = undefined;
    }
    for (const { process } of this.running()) {
      world.time.resume(process);
      process.stepTo(0, world.time.now);
    }
    world.database.isUp = true;
    world.database.diskMs = 2;
    this.peers.delayMs = 30;
    this.peers.isFailing = false;
    this.startAll();
  }
}

const isGone = (one: RunningBroker | RunningEdge | undefined): boolean =>
  one === undefined || one.process.state === "dead";
