// Creates an issue, reads those of two pages, and attaches a file.
import { Version3Client } from "jira.js";

const { ADDRESS, KEY } = process.env;
const jira = new Version3Client({ host: ADDRESS, authentication: { oauth2: { accessToken: KEY } } });

const made = await jira.issues.createIssue({
  fields: { project: { key: "TEA" }, issuetype: { name: "Task" }, summary: "Tea & ü" },
});
const jql = "project = TEA ORDER BY created";
const first = await jira.issueSearch.searchForIssuesUsingJqlEnhancedSearch({ jql, maxResults: 1 });
const { nextPageToken } = first;
const second = await jira.issueSearch.searchForIssuesUsingJqlEnhancedSearch({ jql, maxResults: 1, nextPageToken });
const [attached] = await jira.issueAttachments.addAttachment({
  issueIdOrKey: made.key,
  attachment: { filename: "tea.txt", file: Buffer.from("green") },
});
const refusal = await jira.issues.getIssue({ issueIdOrKey: "TEA-404" }).catch((error) => error);

console.log(
  JSON.stringify({
    written: made.key,
    read: [...first.issues, ...second.issues].map(({ key }) => key),
    uploaded: attached.filename,
    refused: [refusal.constructor.name, refusal.status],
  }),
);
