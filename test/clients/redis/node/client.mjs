// Sends the commands that it reads by ioredis, one a line, words between tabs, and writes what
// came of each: HOST:PORT TOKEN VERSION are its arguments. It speaks version 2 alone.
import readline from 'node:readline';
import Redis from 'ioredis';

const [at, password] = process.argv.slice(2);
const [host, port] = at.split(':');
const client = new Redis({ host, port: Number(port), password, connectionName: 'test', retryStrategy: null });
client.on('error', () => {}); // the command says so, too
for await (const line of readline.createInterface({ input: process.stdin })) {
  try {
    const got = await client.call(...line.split('\t'));
    console.log(Array.isArray(got) ? got.join(' ') : got);
  } catch (error) {
    console.log(`error: ${error.message}`);
  }
}
client.disconnect();
