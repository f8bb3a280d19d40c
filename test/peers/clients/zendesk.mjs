// Creates a ticket, reads those of two pages, and uploads a file.
import { Readable } from "node:stream";
import zendeskClient from "node-zendesk";

const { ADDRESS, KEY } = process.env;
// Links to further pages name Zendesk's address, so that the address is replaced where requests are sent.
const zendesk = zendeskClient.createClient({
  subdomain: "acme",
  username: "ada@example.com",
  token: KEY,
  transportConfig: {
    transportFn: (url, options) =>
      fetch(url.replace("https://acme.zendesk.com", ADDRESS), { ...options, duplex: "half" }),
    responseAdapter: (response) => response,
  },
});

const { result: made } = await zendesk.tickets.create({ ticket: { subject: "Tea", comment: { body: "ü" } } });
const tickets = await zendesk.tickets.list();
const uploaded = await zendesk.attachments.upload(Readable.from("green"), { filename: "tea.txt", binary: true });
const refusal = await zendesk.tickets.show(404).catch((error) => error);

console.log(
  JSON.stringify({
    written: made.id,
    read: tickets.map(({ id }) => id),
    uploaded,
    refused: refusal.message,
  }),
);
