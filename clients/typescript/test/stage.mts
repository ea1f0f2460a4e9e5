// What the tests share: the Headgate that they ask, and servers of their own.

import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set; hint: go test ./clients`);
  return value;
}

/** The address of a Headgate by ../rules.yaml and ../callers.yaml. */
export const url = required("HEADGATE_URL");
/** That of one whose answers are lost, every other one from the first on. */
export const forgetfulUrl = required("HEADGATE_FORGETFUL_URL");
/** That of the first one, behind a certificate for localhost alone. */
export const tlsUrl = required("HEADGATE_TLS_URL");
/** A token that may name limits. */
export const token = required("HEADGATE_TOKEN");
/** The folder of recorded answers. */
export const transcripts = required("HEADGATE_TRANSCRIPTS");
/** What is to be read in them. */
export const answers = required("HEADGATE_ANSWERS");

/** More than any test waits for an answer that comes. */
export const timeoutMs = 30_000;

let drawn = 0;
/** A user whom no other test has. */
export function user(): string {
  return `ts "quoted" ${process.pid} ${Date.now()} ${drawn++}`;
}

/** Runs a server and calls use with its address. */
export async function withServer(listener: RequestListener, use: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
