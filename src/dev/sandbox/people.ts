/** A pretend user. */
export interface Person {
  readonly id: string;
  readonly email: string;
  readonly name: string;
}

export const people: readonly Person[] = [
  { id: "100000000000000000001", email: "ada@example.com", name: "Ada Lovelace" },
  { id: "100000000000000000002", email: "bob@example.com", name: "Bob Bemer" },
  { id: "100000000000000000003", email: "grace@example.com", name: "Grace Hopper" },
];

/** Whoever a client is when it comes for itself, and not for a user. */
export const robot: Person = { id: "100000000000000000000", email: "robot@sandbox.example", name: "Robot" };

export const personByEmail = (email: string): Person | undefined =>
  [...people, robot].find((one) => one.email === email.toLowerCase());
