/* From reset to main: a stack, variables with their first values, the others zero. */
  .section .text.start, "ax"
  .globl _start
_start:
  la sp, stack_end
  la t0, data_begin
  la t1, data_end
  la t2, data_source
1:
  bgeu t0, t1, 2f
  lw t3, 0(t2)
  sw t3, 0(t0)
  addi t0, t0, 4
  addi t2, t2, 4
  j 1b
2:
  la t1, bss_end
3:
  bgeu t0, t1, 4f
  sw zero, 0(t0)
  addi t0, t0, 4
  j 3b
4:
  call main
5:
  wfi
  j 5b
