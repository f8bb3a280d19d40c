/** A made-up user. */
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

/** The user of a client that acts for itself, without a user. */
export const robot: Person = { id: "100000000000000000000", email: "robot@sandbox.example", name: "Robot" };

export const personByEmail = (email: string): Person | undefined =>
  [...people, robot].find((person) => person.email === email.toLowerCase());
