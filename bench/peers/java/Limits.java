import com.netflix.concurrency.limits.Limit;
import com.netflix.concurrency.limits.Limiter;
import com.netflix.concurrency.limits.limit.Gradient2Limit;
import com.netflix.concurrency.limits.limit.VegasLimit;
import com.netflix.concurrency.limits.limit.WindowedLimit;
import com.netflix.concurrency.limits.limiter.SimpleLimiter;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;

/**
 * Netflix' concurrency-limits for B19. What they limit is a model in another process, bench/adaptive_bench.cpp, which
 * says what happens and when; a line each, with times in nanoseconds:
 *
 * <pre>
 * new NAME     begin anew with the limit of that name; answered by the limit
 * + TIME CALL  a call begins
 * - TIME CALL HOW  a call has ended, "ok", "dropped" or "cancelled"; answered by the limit from now on
 * </pre>
 */
public final class Limits {
  private static long now;

  /** From 20, between 1 and 1000; all else as it is by default. */
  private static Limit limit(String name) {
    return WindowedLimit.newBuilder().build(switch (name) {
      case "gradient2" -> Gradient2Limit.newBuilder().initialLimit(20).minLimit(1).maxConcurrency(1000).build();
      case "vegas" -> VegasLimit.newBuilder().initialLimit(20).maxConcurrency(1000).build();
      default -> throw new IllegalArgumentException("no limit is called " + name);
    });
  }

  private static void end(Limiter.Listener call, String how) {
    switch (how) {
      case "ok" -> call.onSuccess();
      case "dropped" -> call.onDropped();
      default -> call.onIgnore();
    }
  }

  public static void main(String[] arguments) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    PrintStream out = new PrintStream(System.out, true);
    Map<String, Limiter.Listener> calls = new HashMap<>();
    Limit limit = null;
    SimpleLimiter<Void> limiter = null;
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] word = line.split(" ");
      if (word[0].equals("new")) {
        calls.clear();
        limit = limit(word[1]);
        limiter = SimpleLimiter.newBuilder().limit(limit).nanoClock(() -> now).build();
      } else {
        now = Long.parseLong(word[1]);
        if (word[0].equals("+")) {
          calls.put(word[2], limiter.acquire(null).orElseThrow());
          continue;
        }
        end(calls.remove(word[2]), word[3]);
      }
      out.println(limit.getLimit());
    }
  }
}
