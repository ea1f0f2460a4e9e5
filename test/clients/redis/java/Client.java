import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Sends the commands that it reads by Jedis, one a line, words between tabs, and writes what came
 * of each: HOST:PORT TOKEN VERSION are its arguments.
 */
public final class Client {
  public static void main(String[] args) throws Exception {
    var config = DefaultJedisClientConfig.builder().password(args[1]).clientName("test")
        .protocol(args[2].equals("3") ? RedisProtocol.RESP3 : RedisProtocol.RESP2).build();
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    Jedis client = null;
    for (String line; (line = in.readLine()) != null; ) {
      try {
        if (client == null) {
          client = new Jedis(HostAndPort.from(args[0]), config);
        }
        out.println(ask(client, line.split("\t")));
      } catch (JedisException e) {
        out.println("error: " + e.getMessage());
      }
    }
  }

  private static String ask(Jedis client, String[] words) {
    var name = words[0].getBytes(StandardCharsets.UTF_8);
    return text(client.sendCommand(() -> name, Arrays.copyOfRange(words, 1, words.length)));
  }

  private static String text(Object got) {
    if (got instanceof List<?> list) {
      return list.stream().map(Client::text).collect(Collectors.joining(" "));
    }
    return got instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(got);
  }
}
